"""Continues `oneloop run` in an interpreter that was started again with Python's own options.

It is run as a file, not as a module, because with -I, -E and -S the package oneloop might not be on `sys.path`.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

if __name__ == "__main__":
    if not sys.flags.safe_path:
        # `python` has put the folder of this file here. `Program` puts the program's folder here later.
        sys.path[0] = ""
    folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    spec = PathFinder.find_spec("oneloop", [folder])
    assert spec is not None
    assert spec.loader is not None
    if "oneloop" not in sys.modules:
        sys.modules["oneloop"] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules["oneloop"])

    from oneloop.cli import main

    main()
