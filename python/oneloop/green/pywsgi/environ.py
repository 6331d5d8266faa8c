"""WSGI environs, whose `repr` hides the data of a request, and `wsgi.file_wrapper`."""

from __future__ import annotations

from typing import Any, Self

__all__ = ["Environ", "FileWrapper", "SecureEnviron", "WSGISecureEnviron"]


class Environ(dict[str, Any]):
    """A WSGI environ. Pickling and copying it with the `copy` module yields a dict."""

    __slots__ = ()

    def copy(self) -> Self:
        """Return a copy of the same class."""
        return self.__class__(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return dict, (), None, None, iter(self.items())


class SecureEnviron(Environ):
    """An environ whose `repr` hides keys and values, because they may be secret.

    With `secure_repr = False`, an object shows everything. Keys in `whitelist_keys` are shown. The other keys are shown
    without values if `print_masked_keys` is true and there are whitelisted keys. Subclasses can set the defaults of the
    three attributes.
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
    """Shows the client's address, the requested host, and the number of hidden keys."""

    default_whitelist_keys: Any = ("REMOTE_ADDR", "REMOTE_PORT", "HTTP_HOST")
    default_print_masked_keys = False


class FileWrapper:
    """Iterates over a file's data in blocks. Closing it closes the file.

    Args:
        filelike: an object with a `read` method.
        block_size: the number of bytes per block.
    """

    def __init__(self, filelike: Any, block_size: int = 65_536) -> None:
        self.filelike = filelike
        self.block_size = block_size

    def close(self) -> None:
        """Close the file if it has a `close` method."""
        close = getattr(self.filelike, "close", None)
        if close is not None:
            close()

    def __iter__(self) -> FileWrapper:
        return self

    def __next__(self) -> Any:
        data = self.filelike.read(self.block_size)
        if not data:
            raise StopIteration
        return data
