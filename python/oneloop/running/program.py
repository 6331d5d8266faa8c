"""Runs a program in this process as `python` does: a script, a directory, a zip file, a module, `-c`, standard input.

The program gets a new `__main__` module, and its tracebacks do not show the frames of this file.
"""

from __future__ import annotations

import importlib.machinery
import io
import linecache
import os
import pkgutil
import re
import runpy
import sys
from contextlib import suppress
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from oneloop.running import hooks

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Program"]


class Program:
    """A program and its arguments.

    Args:
        kind: "script", "module", "command" or "stdin".
        text: the script's path, the module's name, or the command; "-" for standard input.
        arguments: the items of `sys.argv` after the first.
        skip_first_line: skip the first line of a script, as `python -x` does.
    """

    def __init__(self, kind: str, text: str, arguments: list[str], *, skip_first_line: bool = False) -> None:
        self._kind = kind
        self._text = text
        self.arguments = arguments
        self._skip_first_line = skip_first_line
        self._replaces_first = True

    def run(self) -> None:
        """Run the program. Its `__main__` and `sys.argv` stay in place afterwards.

        Raises:
            SystemExit: with status 2 if a script cannot be read, 1 if a module does not exist; or from the program.
            BaseException: any other exception of the program.
        """
        # `python -m oneloop` has put no folder in front of sys.path if the current one has been removed.
        self._replaces_first = bool(_current_folder()) or sys.modules["__main__"].__spec__ is None
        main = _new_main()
        {
            "script": self._script,
            "module": self._module,
            "command": self._command,
            "stdin": self._stdin,
        }[self._kind](main)

    def _begin(self, first_argument: str, first_path: str, *, always: bool = False) -> None:
        """Set `sys.argv` and `sys.path` as `python` does.

        Args:
            first_argument: the first item of `sys.argv`.
            first_path: the first item of `sys.path`, which `python` leaves out with -P.
            always: set it with -P too, as `python` does for a folder or a zip file.
        """
        sys.argv = [first_argument, *self.arguments]
        if not sys.flags.safe_path:
            sys.path[: int(self._replaces_first)] = [first_path]
        elif always:
            sys.path.insert(0, first_path)
        else:
            return
        hooks.forget_shadowed(first_path)

    def _script(self, main: ModuleType) -> None:
        path = Path(self._text)
        if pkgutil.get_importer(self._text) is not None:
            self._begin(self._text, str(path.absolute()), always=True)
            _guard(lambda: runpy._run_module_as_main("__main__", False))  # type: ignore[attr-defined]
        else:
            self._begin(self._text, _folder_of(path))
            _guard(lambda: self._run_file(path, main))

    def _run_file(self, path: Path, main: ModuleType) -> None:
        # Where the current folder has been removed, the path stays as it was given.
        with suppress(FileNotFoundError):
            path = path.absolute()
        try:
            with io.open_code(str(path)) as file:
                source = file.read()
        except OSError as error:
            _cannot_open(self._text, path, error)
        sys.audit("cpython.run_file", str(path))
        compiled = pkgutil.read_code(io.BytesIO(source))
        if self._skip_first_line:
            # The line feed stays, so that the line numbers do not change.
            source = source[source.index(b"\n") :] if b"\n" in source else b""
        code = compiled if isinstance(compiled, CodeType) else _compiled(source, str(path))
        loader = importlib.machinery.SourceFileLoader("__main__", str(path))
        main.__dict__.update(__loader__=loader, **_file_attributes(str(path)))
        exec(code, main.__dict__)

    def _module(self, main: ModuleType) -> None:
        # `python -m` has "-m" in sys.argv until the module is found.
        self._begin("-m", _current_folder())
        sys.audit("cpython.run_module", self._text)
        try:
            _guard(lambda: runpy._run_module_as_main(self._text))  # type: ignore[attr-defined]
        except SystemExit as error:
            if type(error.__context__).__module__ != "runpy":
                raise
            # The message is runpy's: the interpreter's path and the error.
            raise SystemExit(f"{error.code}\n{_module_advice(self._text, str(error.code))}") from None

    def _command(self, main: ModuleType) -> None:
        self._begin("-c", "")
        source = self._text + "\n"
        sys.audit("cpython.run_command", source)
        if sys.version_info >= (3, 14):
            import textwrap

            source = textwrap.dedent(source)

        def run() -> None:
            code = compile(source, "<string>", "exec", dont_inherit=True)
            register: Any = getattr(linecache, "_register_code", None)
            if register is not None:
                # Tracebacks show the source lines, as with `python -c` from 3.13 on. 3.13 finds them by the name.
                register("<string>" if sys.version_info < (3, 14) else code, source, "<string>")
            exec(code, main.__dict__)

        _guard(run)

    def _stdin(self, main: ModuleType) -> None:
        self._begin("-", "")
        sys.audit("cpython.run_stdin")
        main.__dict__.update(_file_attributes("<stdin>"))
        source = sys.stdin.buffer.read() if sys.stdin is not None else b""
        _guard(lambda: exec(compile(source, "<stdin>", "exec", dont_inherit=True), main.__dict__))


def _current_folder() -> str:
    """What `python -m` puts on `sys.path`: the current folder, or nothing if it has been removed."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return ""


def _folder_of(path: Path) -> str:
    try:
        return str(path.resolve().parent)
    except FileNotFoundError:
        # The current folder has been removed.
        return os.path.dirname(path)


def _new_main() -> ModuleType:
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    main.__dict__["__loader__"] = importlib.machinery.BuiltinImporter
    if sys.version_info < (3, 14):
        main.__dict__.update(__annotations__={})
    sys.modules["__main__"] = main
    return main


def _file_attributes(path: str) -> dict[str, object]:
    return {"__file__": path} if sys.version_info >= (3, 15) else {"__file__": path, "__cached__": None}


def _cannot_open(given: str, path: Path, error: OSError) -> NoReturn:
    lines = [f"oneloop run: can't open file {str(path)!r}: [Errno {error.errno}] {error.strerror}"]
    name, colon, _ = given.partition(":")
    if colon and os.sep not in given:
        lines.append(f"If {given} is a web application, write: oneloop serve {given}")
    elif isinstance(error, FileNotFoundError):
        lines.append("Check the path of the script.")
        if not given.endswith(".py") and all(part.isidentifier() for part in name.split(".")):
            lines[-1] += f" If {given} is a module, write: oneloop run -m {given}"
    print("\n".join(lines), file=sys.stderr)
    raise SystemExit(2)


def _compiled(source: bytes, path: str) -> CodeType:
    """Compile a script. Errors name the file and the line, as those of `python`, which reads the file itself."""
    try:
        return compile(source, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise _located(error, source, path) from None


def _located(error: SyntaxError | ValueError, source: bytes, path: str) -> SyntaxError | ValueError:
    null = source.find(b"\0")
    if null >= 0:
        line = source.count(b"\n", 0, null) + 1
        return SyntaxError("source code cannot contain null bytes", (path, line, None, None))
    declares_coding = re.match(rb"(.*\n)?[ \t\f]*#.*?coding[:=]", source) is not None
    if not declares_coding:
        try:
            source.decode()
        except UnicodeDecodeError as wrong:
            line = source.count(b"\n", 0, wrong.start) + 1
            text = (
                f"Non-UTF-8 code starting with '\\x{source[wrong.start]:02x}' in file {path} on line {line}, but no"
                " encoding declared; see https://peps.python.org/pep-0263/ for details"
            )
            # From CPython 3.14.8 on it shows the line. Of the first two lines it says that they are line 1.
            shown = error.args[1][1:] if "Non-UTF-8" in str(error) and len(error.args) > 1 else None
            return SyntaxError(text, (path, *shown)) if shown else SyntaxError(text)
    return error


def _module_advice(name: str, error: str) -> str:
    if name.endswith(".py"):
        return f"To run a file, leave out -m: oneloop run {name}"
    if "cannot be directly executed" in error:
        return f"{name} is a package without a __main__.py. Run one of its modules: oneloop run -m {name}.MODULE"
    return f"oneloop run uses the Python above and its packages. Is {name.partition('.')[0]} installed there?"


def _guard(run: Callable[[], object]) -> None:
    """Run the program. If it ends with an exception, the traceback does not show the frames of this file."""
    try:
        run()
    except BaseException as error:
        # Of a SystemExit too: with -i, the interpreter shows its traceback.
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

    # The interpreter calls the hook when the exception has left the last frame, as for any program.
    sys.excepthook = hook
