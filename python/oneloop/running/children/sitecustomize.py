# mypy: ignore-errors
"""Enters the settings of `oneloop run` in a child process, and then runs the user's own sitecustomize.

Python imports it at its start, because `oneloop run` puts this folder on PYTHONPATH. It runs in every Python that the
program starts, also in other versions, so it has no newer syntax, and does nothing where oneloop cannot work.
"""

import os
import sys

_folder = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [_entry for _entry in sys.path if os.path.abspath(_entry) != _folder]


def _enter(running):
    # `children` is in `running`, which is in the package; the extension module is there for some interpreters only.
    from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, SourceFileLoader

    package = os.path.dirname(running)
    if not any(os.path.exists(os.path.join(package, "_native" + suffix)) for suffix in EXTENSION_SUFFIXES):
        return
    name = "oneloop.running.hooks"
    path = os.path.join(running, "hooks.py")
    # Without its parents, whose import takes longer than all of this.
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
    # The user's own, which Python would have found without us. If there is none, Python ignores the ImportError.
    del sys.modules["sitecustomize"]
    import sitecustomize  # noqa: F401
