# mypy: ignore-errors
"""Applies the settings of `oneloop run` in a child process, and then runs the user's own sitecustomize.

Python imports this file when it starts, because `oneloop run` puts this directory on PYTHONPATH. It runs in every
Python that the program starts. These can have other versions, so it uses no new syntax, and does nothing if oneloop
does not support the version.
"""

import os
import sys

_folder = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [_entry for _entry in sys.path if os.path.abspath(_entry) != _folder]


def _enter(running):
    # The folder `running` is in the package. The extension module exists for some interpreters only.
    from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, SourceFileLoader

    package = os.path.dirname(running)
    if not any(os.path.exists(os.path.join(package, "_native" + suffix)) for suffix in EXTENSION_SUFFIXES):
        return
    name = "oneloop.running.hooks"
    path = os.path.join(running, "hooks.py")
    # Load the module without its parent packages, whose import takes longer than all of this.
    spec = ModuleSpec(name, SourceFileLoader(name, path), origin=path)
    spec.has_location = True
    hooks = type(sys)(name)
    hooks.__spec__ = spec
    hooks.__file__ = path
    sys.modules[name] = hooks
    spec.loader.exec_module(hooks)
    hooks.enter_child()


try:
    if os.environ.get("ONELOOP_RUN") and sys.version_info >= (3, 11) and sys.platform == "linux":
        _enter(os.path.dirname(_folder))
finally:
    # Import the user's own sitecustomize, which Python would have found. If there is none, Python ignores the
    # ImportError.
    del sys.modules["sitecustomize"]
    import sitecustomize  # noqa: F401
