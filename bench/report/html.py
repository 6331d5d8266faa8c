"""placeholder"""
def page(doc): raise SystemExit("not yet")
