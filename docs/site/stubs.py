"""A Sphinx extension: the types of native names, which the binary does not have, from `_native.pyi`.

autodoc imports the module, so names and docstrings are those of the binary. This file only adds the signatures of
methods and functions and the types of attributes.
"""

from __future__ import annotations

import ast
import copy
from functools import cache
from typing import TYPE_CHECKING, Any

from docs.site.pages import ROOT
from oneloop import _native

if TYPE_CHECKING:
    from sphinx.application import Sphinx

STUB = ROOT / "python/oneloop/_native.pyi"


@cache
def definitions() -> dict[str, ast.FunctionDef | ast.AnnAssign]:
    """Functions, methods and attributes of the stub by qualified name; of overloads, the last."""
    found: dict[str, ast.FunctionDef | ast.AnnAssign] = {}
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for member in members:
            if isinstance(member, ast.FunctionDef):
                found[prefix + member.name] = member
            elif isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
                found[prefix + member.target.id] = member
    return found


def qualified_name(value: object) -> str | None:
    """The name in the stub of a native class, method, function or attribute; None for all others."""
    value = getattr(value, "__func__", value)  # a native function as a class method
    owner = getattr(value, "__objclass__", None) or getattr(value, "__self__", None)
    class_name = _native_name(owner) if isinstance(owner, type) and not isinstance(value, type) else None
    return f"{class_name}.{getattr(value, '__name__', '')}" if class_name else _native_name(value)


def _native_name(value: object) -> str | None:
    """The name that the native module has for an object: a public module may have given it another."""
    return next((name for name, native in vars(_native).items() if native is value), None)


def signature(name: str, *, is_bound: bool = False) -> tuple[str, str | None] | None:
    """Parameters and result of a function, method or class as text; None if the stub does not have it.

    A function that is bound, as a class method, lacks its first parameter.
    """
    known = definitions()
    found = known.get(name)
    is_class = found is None
    if is_class:
        found = known.get(f"{name}.__new__") or known.get(f"{name}.__init__")
    if not isinstance(found, ast.FunctionDef):
        return None
    args = copy.deepcopy(found.args)
    is_static = any(isinstance(node, ast.Name) and node.id == "staticmethod" for node in found.decorator_list)
    if is_bound or is_class or ("." in name and not is_static):
        del (args.posonlyargs or args.args)[0]  # self or cls
    result = None if found.returns is None or is_class else ast.unparse(found.returns)
    return f"({ast.unparse(args)})", result


def type_of(name: str) -> str | None:
    """The type of an attribute as text."""
    found = definitions().get(name)
    annotation = found.returns if isinstance(found, ast.FunctionDef) else found and found.annotation
    return ast.unparse(annotation) if annotation is not None else None


def is_left_out(value: object) -> bool:
    """Whether a native method or attribute is not in the stub: asyncio requires it, but it only raises."""
    native = qualified_name(value)
    return native is not None and "." in native and native not in definitions()


def _skip_member(
    _app: Sphinx, _what: str, _name: str, value: object, _is_skipped: bool, _options: object
) -> bool | None:
    return True if is_left_out(value) else None


def _process_signature(
    _app: Sphinx, what: str, _name: str, value: object, _options: object, text: str | None, result: str | None
) -> tuple[str | None, str | None]:
    native = qualified_name(value)
    if native is None or what in ("attribute", "property", "module", "data"):
        return text, result
    if what in ("class", "exception"):
        return signature(native) or ("", None)  # a class without a constructor
    if hasattr(value, "__func__"):
        return text, result  # Sphinx 9.2 fails if a signature replaces one that inspect cannot read: see below
    return signature(native) or (text, result)


def _process_docstring(_app: Sphinx, what: str, _name: str, value: object, _options: object, lines: list[str]) -> None:
    native = qualified_name(value)
    if native is None:
        return
    found = None
    if what in ("attribute", "property"):
        found = type_of(native)
    elif hasattr(value, "__func__"):
        parameters, result = signature(native, is_bound=True) or ("()", None)
        found = f"{parameters} -> {result}"
    if found is not None:
        lines[:0] = [f"``{found}``", ""]


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("autodoc-skip-member", _skip_member)
    app.connect("autodoc-process-signature", _process_signature)
    app.connect("autodoc-process-docstring", _process_docstring)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
