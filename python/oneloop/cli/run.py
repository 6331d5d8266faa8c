"""`oneloop run`: makes oneloop the process's default loop, and runs a program as `python` would."""

from __future__ import annotations

import importlib.machinery
import io
import os
import pkgutil
import runpy
import sys
import zipfile
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import TYPE_CHECKING, NoReturn

from oneloop import compat

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["prepare", "run_program"]


def prepare(*, debug: bool = False, stats: bool = False, patch: bool = False, replace: list[str] | None = None) -> None:
    """Make oneloop the default loop of this process.

    Args:
        debug: loops start in debug mode.
        stats: print the statistics of every loop at exit.
        patch: patch the standard library for green threads.
        replace: packages that are to be replaced by their facades.
    """
    if debug:
        # asyncio reads it whenever a loop is made; child processes inherit it.
        os.environ["PYTHONASYNCIODEBUG"] = "1"
    from oneloop.factories import replace_factories

    replace_factories()
    for name in replace or []:
        compat.install(name)
    if patch:
        from oneloop.green import monkey

        monkey.patch_all()
    if stats:
        from oneloop.cli import stats as report

        report.at_exit()


def run_program(program: list[str], *, is_module: bool) -> None:
    """Run a program in this process, which has no other `__main__` from here on.

    Args:
        program: the module's name or the script's path, then its arguments.
        is_module: as `python -m` means it.
    """
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    sys.modules["__main__"] = main
    name = program[0]
    sys.argv = program
    if is_module:
        _set_first_path(str(Path.cwd()))
        _guard(lambda: runpy._run_module_as_main(name))  # type: ignore[attr-defined]
    elif Path(name).is_dir() or zipfile.is_zipfile(name):
        _set_first_path(str(Path(name).absolute()), always=True)
        _guard(lambda: runpy._run_module_as_main("__main__", False))  # type: ignore[attr-defined]
    else:
        _set_first_path(str(Path(name).resolve().parent))
        _guard(lambda: _run_script(Path(name).absolute(), main))


def _set_first_path(folder: str, *, always: bool = False) -> None:
    """Replace the folder of the command `oneloop` by what `python` would put first."""
    if not sys.flags.safe_path:
        sys.path[0] = folder
    elif always:
        sys.path.insert(0, folder)


def _run_script(path: Path, main: ModuleType) -> None:
    try:
        code = _code_of(path)
    except OSError as error:
        _cannot_open(path, error)
    loader = importlib.machinery.SourceFileLoader("__main__", str(path))
    main.__dict__.update(__file__=str(path), __cached__=None, __loader__=loader)
    exec(code, main.__dict__)


def _code_of(path: Path) -> CodeType:
    with io.open_code(str(path)) as file:
        program = file.read()
    compiled = pkgutil.read_code(io.BytesIO(program))
    if isinstance(compiled, CodeType):
        return compiled
    return compile(program, path, "exec", dont_inherit=True)


def _cannot_open(path: Path, error: OSError) -> NoReturn:
    reason = f"[Errno {error.errno}] {error.strerror}"
    print(f"oneloop: can't open file {str(path)!r}: {reason}", file=sys.stderr)
    raise SystemExit(2)


def _guard(run: Callable[[], object]) -> None:
    """Run the program; a traceback that ends it is shown without the frames of this file."""
    try:
        run()
    except SystemExit:
        raise
    except BaseException as error:
        _hide_own_frames(error)
        raise


def _hide_own_frames(error: BaseException) -> None:
    show = sys.excepthook
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
        traceback = traceback.tb_next

    def hook(kind: type[BaseException], value: BaseException, whole: TracebackType | None) -> None:
        if value is error:
            whole = value.__traceback__ = traceback
        show(kind, value, whole)

    # The interpreter calls it when the exception has left the last frame, as for any program.
    sys.excepthook = hook
