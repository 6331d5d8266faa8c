"""gevent's own description of its loop, which its tests compare the loop with."""

from __future__ import annotations

import os
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

from zope.interface import classImplements

from oneloop.green.hub_loop import HubLoop
from oneloop.green.loop import Callback
from tests.gevent_suite.entry import FOLDER

_spec: Any = spec_from_file_location(__name__, os.path.join(os.environ[FOLDER], "gevent", "_interfaces.py"))
_theirs: Any = module_from_spec(_spec)
_spec.loader.exec_module(_theirs)
ILoop, ICallback = _theirs.ILoop, _theirs.ICallback
classImplements(HubLoop, ILoop)
classImplements(Callback, ICallback)
