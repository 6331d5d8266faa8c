"""Runs programs on oneloop, for `oneloop run`.

`program` runs a program as `python` does, `interpreter` reads Python's own options, `hooks` changes what asyncio and
uvloop give a program, `report` prints the warning about other loops. `children` is the folder that child processes
have on PYTHONPATH.
"""
