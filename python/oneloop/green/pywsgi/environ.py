"""Environs that keep to themselves what a request says."""

from __future__ import annotations

from typing import Any, Self

__all__ = ["Environ", "SecureEnviron", "WSGISecureEnviron"]


class Environ(dict[str, Any]):
    """An environ; pickled and copied as a dict."""

    __slots__ = ()

    def copy(self) -> Self:
        """A copy of the same class."""
        return self.__class__(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return dict, (), None, None, iter(self.items())


class SecureEnviron(Environ):
    """An environ whose `repr` does not tell keys and values, since they may be secret.

    `secure_repr = False` of an object has it tell all; `whitelist_keys` are those that it tells, and if
    `print_masked_keys` the others are told without their values. A subclass sets the defaults of the three.
    """

    default_secure_repr = True
    default_whitelist_keys: Any = ()
    default_print_masked_keys = True

    print_masked_keys: Any
    secure_repr: Any
    whitelist_keys: Any

    __slots__ = ("print_masked_keys", "secure_repr", "whitelist_keys")

    def __getattr__(self, name: str) -> Any:
        if name in SecureEnviron.__slots__:
            return getattr(type(self), f"default_{name}")
        raise AttributeError(name)

    def __repr__(self) -> str:
        if not self.secure_repr:
            return dict.__repr__(self)
        told = self.whitelist_keys
        if not told:
            return f"<pywsgi.SecureEnviron dict (keys: {len(self)}) at {id(self)}>"
        shown = {
            key: value if key in told else "<MASKED>"
            for key, value in self.items()
            if key in told or self.print_masked_keys
        }
        hidden = len(self) - len(shown)
        text = repr(shown)
        return f"{text[:-1]}, (hidden keys: {hidden})}}" if hidden else text

    __str__ = __repr__


class WSGISecureEnviron(SecureEnviron):
    """Tells who asks, and of which host; how many other keys there are."""

    default_whitelist_keys: Any = ("REMOTE_ADDR", "REMOTE_PORT", "HTTP_HOST")
    default_print_masked_keys = False
