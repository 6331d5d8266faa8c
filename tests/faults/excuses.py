"""What `make nomemory` forgives, by name: what CPython, asyncio and greenlet do without memory, whoever uses them.

What fits no name is forbidden. `proofs.py` has programs without oneloop that end in the same ways.
"""

from __future__ import annotations

import linecache
import os
import re
import traceback

REASONS = {
    "no function": "PyFunction_NewWithQualName of CPython 3.13 gives up references that it does not have, and so does a"
    " function that begins without its cells: CPython crashes, sometimes later, or calls what is not one",
    "lost exception": "take_ownership in CPython's frame.c clears the exception if it cannot make the caller's frame"
    " object: the call then returns nothing and has no exception, which for an iterator is None",
    "no lock": "threading.Lock raises RuntimeError",
    "task not entered": "a task of asyncio that could not be entered cannot be left",
    "no path": "os.fspath takes a failed look-up of __fspath__ for none",
    "stray exception": "an exception that a function of CPython has left behind is seen in the next call",
    "standard library": "raised in code of the standard library, which was given a MemoryError or None",
    "step not scheduled": "a task of asyncio whose next step cannot be scheduled sleeps for ever, also on its own loop",
    "greenlet": "greenlet makes its objects at the address null, and ends the process if it cannot save a stack",
}
_STRAY = re.compile(
    r"<(function |built-in function get_(running|event)_loop|method 'call_later' of).* returned a result with an"
)
"""`call_later` is the first to be called after the interpreter has specialized the line of `_timers`: a check at its
entry found the exception set already."""
_LOST = re.compile(
    r"<(function|method|built-in function|built-in method) .*> returned NULL without setting an exception"
    r"|error return without exception set"
)
_ASYNCIOS = re.compile(
    r"Exception in callback (<_asyncio\.TaskStepMethWrapper|Task\.task_wakeup|gather\.<locals>|_run_until_complete_cb"
    r"|_set_result_unless_cancelled)"
    r"|protocol\.connection_(made|lost)\(\) failed"
)
_NATIVE = {
    "greenlet": re.compile(r" greenlet::(Greenlet::Greenlet|Greenlet::expose_frames|Greenlet::g_switchstack) "),
    "no function": re.compile(r" (PyFunction_NewWithQualName|func_dealloc|_PyFunction_\w+) "),
}
"""Functions that crash."""


class ExtraNoneError(Exception):
    """An `async for` has got a None at its end."""


def of_exception(error: BaseException) -> str:
    """The name under which an exception is excused; "" if it is not. A panic is always ours."""
    text = str(error)
    frames = traceback.extract_tb(error.__traceback__)
    match error:
        case _ if "Panic" in repr(error):
            return ""
        case RuntimeError() if text.startswith("can't allocate lock"):
            return "no lock"
        case RuntimeError() if text.startswith("Leaving task "):
            return "task not entered"
        case SystemError() if _STRAY.match(text):
            return "stray exception"
        case SystemError() if _LOST.match(text):
            return "lost exception"
        case ExtraNoneError():
            return "lost exception"
        case TypeError() if "os.PathLike" in text:
            return "no path"
        case _ if frames and _makes_a_function(frames[-1].line or ""):
            return "no function"
        case _ if frames and frames[-1].filename.startswith((os.path.dirname(os.__file__), "<frozen ")):
            return "standard library"
    return ""


def of_crash(said: str) -> str:
    """The name under which the end of a child by a signal is excused. `said`: its log."""
    if "g_switchstack" in said:
        return "greenlet"
    place = re.search(r'File "([^"]+)", line (\S+) in', said)
    if place is None:
        return ""
    # A function that begins without its cells has no line yet.
    is_function = not place.group(2).isdigit() or _makes_a_function(
        linecache.getline(place.group(1), int(place.group(2)))
    )
    # Or it has seen one of the others before.
    return "no function" if is_function else next((name for name in REASONS if f" ({name})" in said), "")


def of_frames(frames: str) -> str:
    """The same, from its native frames as gdb shows them: it has crashed in code that is not ours."""
    innermost = "\n".join(frames.rpartition("<signal handler called>\n")[2].splitlines()[:3])
    return next((name for name, pattern in _NATIVE.items() if pattern.search(innermost)), "")


def of_hang(said: str) -> str:
    """The name under which a child that does not end is excused."""
    return "step not scheduled" if _ASYNCIOS.search(said) else ""


def _makes_a_function(line: str) -> bool:
    """Whether an allocation in this line may have been that of a function."""
    return line.lstrip().startswith(("def ", "async def ", "@")) or "lambda" in line or " for " in line
