"""Runs programs on oneloop, for `oneloop run`.

`program` runs a program as `python` does, `interpreter` reads Python's own options, `hooks` changes what asyncio and
uvloop give a program, `report` prints the warning about other loops. The directory `children` is on the PYTHONPATH of
child processes. `again` continues in an interpreter that was started again with Python's options.
"""
