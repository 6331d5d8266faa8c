"""Options: one list for the command, `run` and `serve`; wrong ones are sentences that say what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from oneloop.cli import serve
from oneloop.http.given import Given
from oneloop.http.options import OptionError, Options, flag

ROOT = Path(__file__).resolve().parents[2]


def test_the_keyword_arguments_are_the_fields() -> None:
    assert list(Given.__annotations__) == [one.name for one in fields(Options)]
    assert [one.type for one in fields(Options)] == [_written(kind) for kind in Given.__annotations__.values()]


def _written(kind: Any) -> str:
    """An annotation as it stands in the source."""
    return kind if isinstance(kind, str) else str(getattr(kind, "__forward_arg__", kind))


def test_each_field_has_a_flag_and_a_line_in_the_reference() -> None:
    known = {action.dest: action.option_strings for action in serve.parser()._actions}
    text = (ROOT / "docs/reference/serve.md").read_text(encoding="utf-8")
    for field in fields(Options):
        assert flag(field.name) in known[field.name], field.name
        assert f"`{flag(field.name)}" in text, field.name
    for left_out in serve.LEFT_OUT:
        assert f"`{left_out}`" in text


def test_uvicorns_command_lines_are_understood() -> None:
    uvicorn = pytest.importorskip("uvicorn.main")
    known = {string for action in serve.parser()._actions for string in action.option_strings}
    for option in uvicorn.main.params:
        for string in [*option.opts, *option.secondary_opts]:
            assert string in known or not string.startswith("--") or string == "--version", string


def test_uvicorns_defaults_are_ours() -> None:
    config = pytest.importorskip("uvicorn").Config("x:app", log_config=None)
    # A healthcheck of ours asks the loop, which some applications block for a while; uvicorn's does not.
    own = ("log_config", "workers", "forwarded_allow_ips", "timeout_worker_healthcheck")
    for field in fields(Options):
        if hasattr(config, field.name) and field.name not in own:
            theirs, ours = getattr(config, field.name), field.default
            assert (list(ours) if isinstance(ours, tuple) else ours) == theirs, field.name


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"port": 65536}, "--port must be a number from 0 to 65535, not 65536"),
        ({"workers": 0}, "--workers must be at least 1, not 0"),
        ({"timeout_header": -1}, "--timeout-header must be at least 0, not -1"),
        ({"timeout_body": float("nan")}, "--timeout-body must be at least 0, not nan"),
        ({"max_headers": 257}, "--max-headers must be at most 256, not 257"),
        ({"max_body_size": 1 << 64}, "--max-body-size must be at most 4611686018427387904, not 18446744073709551616"),
        ({"backlog": 1 << 31}, "--backlog must be at most 2147483647, not 2147483648"),
        ({"fd": 1 << 31}, "--fd must be at most 2147483647, not 2147483648"),
        ({"threads": 1 << 64}, "--threads must be at most 65536"),
        ({"workers": 1 << 64}, "--workers must be at most 1024"),
        ({"uds": ""}, "--uds must be the path of a unix socket, and is empty"),
        ({"uds": "/x", "uds_mode": -1}, "--uds-mode must be at least 0, not -1"),
        ({"headers": [("a", "b\x01")]}, "--header must be Name:Value"),
        ({"headers": [("Content-Length", "5")]}, "--header Content-Length: the server sets this header itself"),
        (
            {"headers": [("transfer-encoding", "chunked")]},
            "--header transfer-encoding: the server sets this header itself",
        ),
        ({"interface": "asgi"}, "--interface must be one of auto, asgi3, asgi2, wsgi, not 'asgi'"),
        ({"uds": "/x", "fd": 3}, "--uds and --fd both select the socket: use only one of them"),
        ({"uds": "/x", "reuse_port": True}, "--reuse-port needs --host and --port: it cannot be combined"),
        (
            {"headers": [("a b", "c")]},
            "--header must be Name:Value, with a name of letters, digits and hyphens, not 'a b:c'",
        ),
        ({"headers": [("a", "b\r\nc: d")]}, "--header must be Name:Value"),
        ({"metrics": "metrics"}, "--metrics must be a path that begins with a slash, not 'metrics'"),
        *(
            ({"root_path": "/api", name: given}, f"--{name} {path} is never found under --root-path /api")
            for path in ("/x", "/apix")
            for name, given in (("health", path), ("metrics", path), ("static", [(path, ".")]))
        ),
        (
            {"root_path": "/api", "health": "/health"},
            "--health /health is never found under --root-path /api: write the path that clients see, /api/health",
        ),
        ({"root_path": "/api", "health": "/api"}, "--health /api is never found under --root-path /api"),
        ({"root_path": "/api/", "metrics": "/api/x"}, "--metrics needs a --root-path without a slash at its end"),
        ({"root_path": "/", "static": [("/x", ".")]}, "--static needs a --root-path without a slash at its end"),
        ({"static": [("/static", "/nowhere")]}, "--static /static=/nowhere: there is no such directory"),
        ({"ssl_keyfile": __file__}, "--ssl-keyfile needs --ssl-certfile"),
        ({"ssl_certfile": "/nowhere"}, "--ssl-certfile /nowhere: there is no such file"),
        ({"ssl_certfile": __file__, "ssl_cert_reqs": 2}, "--ssl-cert-reqs needs --ssl-ca-certs"),
        ({"reload_dirs": ["."]}, "--reload-dir, --reload-include and --reload-exclude need --reload"),
        ({"forwarded_allow_ips": "10.0.0.1/8"}, "--forwarded-allow-ips: '10.0.0.1/8' is neither a network"),
        ({"forwarded_allow_ips": "foo"}, "--forwarded-allow-ips: 'foo' is not an IP address, a network, the path"),
        ({"proxy_protocol": True, "proxy_allow_ips": ["foo"]}, "--proxy-allow-ips: 'foo' is not an IP address"),
        ({"proxy_allow_ips": ["10.0.0.1"]}, "--proxy-allow-ips needs --proxy-protocol"),
        ({"forwarded_allow_ips": "*,foo"}, "--forwarded-allow-ips: 'foo' is not an IP address"),
    ],
)
def test_wrong_options(given: dict[str, Any], text: str) -> None:
    with pytest.raises(OptionError) as caught:
        Options.from_given(given)
    assert str(caught.value).startswith(text)


def test_paths_under_the_root_path() -> None:
    folders = [("/api", "."), ("/api/static/", "."), ("/", "."), ("/a", ".")]
    options = Options(root_path="/a", health="/a/health", metrics="/a/metrics", static=[("/a/x", "."), ("/a/", ".")])
    assert (options.health, options.metrics) == ("/a/health", "/a/metrics")
    # The path of a request can begin with one of these.
    assert [url for url, _ in Options(root_path="/a/b", static=folders[2:]).static] == ["/", "/a"]
    assert [url for url, _ in Options(root_path="/api", static=folders[:3]).static] == ["/api", "/api/static/", "/"]


def test_an_unknown_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="there is no option 'prot'"):
        Options.from_given({"prot": 1})


def test_the_number_of_workers_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", "3")
    assert Options().worker_count == 3
    assert Options(workers=2).worker_count == 2
    assert Options(reload=True).worker_count == 1
    monkeypatch.setenv("WEB_CONCURRENCY", "many")
    with pytest.raises(
        OptionError, match="WEB_CONCURRENCY must be auto or a number of workers from 1 to 1024, not 'many'"
    ):
        Options()


def parsed(*arguments: str) -> dict[str, Any]:
    return vars(serve.parser().parse_args(["x:app", *arguments]))


def test_what_is_not_given_stays_out() -> None:
    assert parsed() == {"app": "x:app"}


@pytest.mark.parametrize(("parser", "versions"), [("h11", "1"), ("httptools", "1"), ("zttp", "auto"), ("auto", "auto")])
def test_uvicorns_parsers_mean_versions(parser: str, versions: str) -> None:
    assert parsed("--http", parser)["http"] == versions


def test_values_are_read() -> None:
    assert parsed("--max-body-size", "2g", "--ws-max-size=64k")["max_body_size"] == 2 << 30
    assert parsed("--header", "X-A: b", "--header", "c:d")["headers"] == [("X-A", "b"), ("c", "d")]
    assert parsed("--static", "/s=public")["static"] == [("/s", "public")]
    assert parsed("--no-access-log", "--no-server-header") == {
        "app": "x:app",
        "access_log": False,
        "server_header": False,
    }
    assert parsed("--ws-per-message-deflate", "false")["ws_per_message_deflate"] is False
    assert parsed("--uds-mode", "660")["uds_mode"] == 0o660
    assert parsed("--log-level", "INFO")["log_level"] == "info"
    assert parsed("--http2", "--loop", "uvloop")["left_out"] == ["--http2", "--loop"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--port", "http"], "argument --port: invalid int value: 'http'"),
        (["--header", "x"], "argument --header: 'x' is not a header field: write Name:Value"),
        (["--static", "public"], "argument --static: 'public' is not URL=DIR, such as /static=public"),
        (["--limit-memory", "1t"], "argument --limit-memory: '1t' is not a number of bytes, such as 65536, 64k or 1g"),
        (["--prot", "1"], "unrecognized arguments: --prot 1"),
        (["--lifespan", "maybe"], "argument --lifespan: invalid choice: 'maybe'"),
    ],
)
def test_wrong_command_lines_end_with_status_2(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        parsed(*arguments)
    assert caught.value.code == 2
    assert f"oneloop serve: {text}" in capsys.readouterr().err


def test_the_most_headers_that_there_may_be() -> None:
    assert Options(max_headers=256).max_headers == 256


@pytest.mark.parametrize("text", ["0", "-1", "two", ""])
def test_a_number_of_workers_that_is_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", text)
    with pytest.raises(OptionError, match="WEB_CONCURRENCY"):
        Options()


def test_a_descriptor_below_zero() -> None:
    with pytest.raises(OptionError, match="--fd"):
        Options(fd=-1)


def test_nobody_is_trusted_without_proxy_headers() -> None:
    assert Options(proxy_headers=False, forwarded_allow_ips="*").trust() is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"port": "x"}, "--port must be a whole number, not 'x'"),
        ({"port": True}, "--port must be a whole number, not True"),
        ({"max_body_size": "10m"}, "--max-body-size must be a whole number, not '10m'"),
        ({"timeout_keep_alive": "5"}, "--timeout-keep-alive must be a number, not '5'"),
        ({"uds_mode": "660"}, "--uds-mode must be a whole number"),
        ({"host": None}, "--host must be a text, not None"),
        ({"ssl_certfile": 3}, "--ssl-certfile must be a path, not 3"),
        ({"reload": "yes"}, "--reload must be True or False, not 'yes'"),
        ({"static": "/s=public"}, r"static must be pairs of \(URL, directory\)"),
        ({"headers": {"a": "b"}}, r"headers must be pairs of \(name, value\), not 'a'"),
        ({"headers": ["a:b"]}, r"headers must be pairs of \(name, value\), not 'a:b'"),
        ({"headers": [(b"a", b"b")]}, r"headers must be pairs of texts, not \(b'a', b'b'\)"),
        ({"headers": [("a", None)]}, r"headers must be pairs of texts, not \('a', None\)"),
        ({"headers": 5}, r"headers must be pairs of \(name, value\), not 5"),
        ({"static": [(Path("/s"), ".")]}, r"static must be pairs of texts, not \(PosixPath\('/s'\), '.'\)"),
        ({"static": [("/s", 5)]}, r"static must be pairs of texts, not \('/s', 5\)"),
        ({"reload": True, "reload_dirs": [5]}, r"reload_dirs must be a text or a list of texts, not \[5\]"),
        ({"reload": True, "reload_dirs": iter(["."])}, "reload_dirs must be a text or a list of texts, not <list_iter"),
        ({"reload": True, "reload_includes": 5}, "reload_includes must be a text or a list of texts, not 5"),
        ({"reload": True, "reload_excludes": b"x"}, "reload_excludes must be a text or a list of texts, not b'x'"),
    ],
)
def test_kinds_of_values(given: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        Options(**given)


@pytest.mark.parametrize("kind", [str, Path])
def test_one_text_is_a_list_of_it(tmp_path: Path, kind: Callable[[Path], Any]) -> None:
    """As in uvicorn. A path is as good as its text, wherever a folder is meant."""
    folder = kind(tmp_path)
    assert Options(reload=True, reload_dirs=[folder]).reload_dirs == [folder]
    assert [str(one) for _, one in Options(static=[("/", folder)]).static] == [str(tmp_path)]
    options = Options(reload=True, reload_dirs=folder, reload_includes="*.x", reload_excludes="*.y")
    assert [*options.reload_dirs, *options.reload_includes, *options.reload_excludes] == [folder, "*.x", "*.y"]
