"""The same check in other styles, for learning and for benchmarks: green threads, threads and processes.

These styles use the package `requests` and support only the options that it has.
"""

from __future__ import annotations

import time
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from oneloop.check.options import OptionError, Options
from oneloop.check.result import ErrorClass, Hop, Result, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["STYLES", "Style", "check_in_style"]

Style: TypeAlias = Literal["coroutines", "green", "threads", "processes"]
STYLES: tuple[Style, ...] = ("coroutines", "green", "threads", "processes")

# The options that requests supports.
_KNOWN = {
    "concurrency", "timeout_s", "method", "follow", "max_redirects", "headers", "user_agent", "auth", "insecure",
    "proxy",
}  # fmt: skip


def check_in_style(urls: Iterable[Target], options: Options, style: Style) -> Iterator[Result]:
    """Check URLs with `requests`.

    Args:
        urls: the URLs.
        options: how to check.
        style: any style except "coroutines", for which `check` is used.

    Returns:
        An iterator of the results, in the order in which the URLs finish.

    Raises:
        OptionError: this style does not support an option, or green threads are used in a process without
            `monkey.patch_all()`.
        ImportError: `requests` is not installed.
    """
    _refuse_unknown(options, style)
    try:
        import requests  # noqa: F401
    except ImportError as error:
        raise ImportError(f"--style {style} needs requests: pip install requests", name="requests") from error
    if style == "green":
        return _in_green_threads(urls, options)
    if style == "threads":
        return _in_pool(urls, options, ThreadPoolExecutor(options.concurrency))
    # As many processes as the concurrency would be too many.
    return _in_pool(urls, options, ProcessPoolExecutor(min(options.concurrency, 32)))


def _refuse_unknown(options: Options, style: Style) -> None:
    plain = Options(retries=0, per_host=options.concurrency)
    for name in Options.__dataclass_fields__:
        if name not in _KNOWN and getattr(options, name) not in (getattr(plain, name), getattr(Options(), name)):
            raise OptionError(f"{name} is supported only by --style coroutines, not by --style {style}")


def get(target: Target, options: Options) -> Result:
    """Request a URL with `requests`.

    Args:
        target: the URL.
        options: how to check.

    Returns:
        The result. Errors of the request are in it.
    """
    import requests

    result = Result(target.number, target.url, final_url=target.url)
    began = time.monotonic()
    try:
        with requests.Session() as session:
            session.headers["User-Agent"] = options.user_agent
            session.headers.update(options.headers)
            session.max_redirects = options.max_redirects
            proxies = {"http": options.proxy, "https": options.proxy} if options.proxy is not None else None
            answer = session.request(
                options.method, target.url, timeout=options.timeout_s, allow_redirects=options.follow,
                auth=options.auth, verify=not options.insecure, proxies=proxies,
            )  # fmt: skip
        result.status = answer.status_code
        result.final_url = answer.url
        result.redirects = tuple(Hop(hop.status_code, hop.url) for hop in answer.history)
        result.first_byte_s = answer.elapsed.total_seconds()
        result.body_bytes = len(answer.content)
    except (requests.RequestException, ValueError) as error:
        result.error = _class_of(error)
        result.error_text = " ".join(str(error).split())[:300]
    result.total_s = time.monotonic() - began
    return result


def _class_of(error: Exception) -> ErrorClass:
    import requests
    from urllib3.exceptions import MaxRetryError, NameResolutionError

    known: list[tuple[Any, ErrorClass]] = [
        (requests.Timeout, "timeout"),
        (requests.TooManyRedirects, "too_many_redirects"),
        (requests.exceptions.SSLError, "tls"),
        (requests.exceptions.ChunkedEncodingError, "protocol"),
    ]
    for kind, name in known:
        if isinstance(error, kind):
            return name
    if isinstance(error, requests.ConnectionError):
        reason = error.args[0] if error.args else None
        if isinstance(reason, MaxRetryError):
            return "dns" if isinstance(reason.reason, NameResolutionError) else "connect"
        return "protocol"
    return "invalid_url" if isinstance(error, ValueError) else "protocol"


def _in_pool(urls: Iterable[Target], options: Options, pool: Executor) -> Iterator[Result]:
    rest = iter(urls)
    with pool:
        try:
            under_way: set[Future[Result]] = set()
            while True:
                for target in islice(rest, 2 * options.concurrency - len(under_way)):
                    under_way.add(pool.submit(get, target, options))
                if not under_way:
                    return
                done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _in_green_threads(urls: Iterable[Target], options: Options) -> Iterator[Result]:
    from oneloop.green import monkey
    from oneloop.green.pool import Pool

    if not monkey.is_module_patched("socket"):
        raise OptionError(
            "--style green needs a patched process: call oneloop.green.monkey.patch_all() before all other imports"
        )
    one: Callable[[Target], Result] = lambda target: get(target, options)  # noqa: E731
    return iter(Pool(options.concurrency).imap_unordered(one, urls, maxsize=2 * options.concurrency))
