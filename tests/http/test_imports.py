"""What a server imports after its application was imported: nothing that the application's folder could hide."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.http.service import ROOT, Service

if TYPE_CHECKING:
    from pathlib import Path

# Modules of the standard library that the server uses, and whose names programs like for their own.
HIDDEN = [
    "compression",
    "concurrent",
    "gzip",
    "hashlib",
    "hmac",
    "http",
    "ipaddress",
    "json",
    "logging",
    "mimetypes",
    "numbers",
    "platform",
    "queue",
    "random",
    "secrets",
    "socket",
    "ssl",
    "tempfile",
    "urllib",
]

OPTIONS = [
    (),
    ("--workers", "2", "--metrics", "/metrics"),
    ("--reload",),
    ("--forwarded-allow-ips", "127.0.0.1,::1,10.0.0.0/8"),
    ("--limit-max-requests", "100", "--limit-max-requests-jitter", "7"),
    ("--access-log-format", "json"),
    ("--static", "/files=files", "--compress", "--health", "/health"),
    ("--redirect-https",),
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: options[0] if options else "none")
@pytest.mark.parametrize("app", ["app", "wsgi"])
def test_modules_of_the_application_hide_none_of_the_server(tmp_path: Path, app: str, options: tuple[str, ...]) -> None:
    for name in HIDDEN:
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('{name} is not yours')\n")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "page.html").write_text("<p>" * 1000)
    # -P, because `python -m` would put the folder first from the start.
    command = ("-P", "-m", "oneloop", "serve")
    env = {"PYTHONPATH": str(ROOT / "python")}
    with Service(tmp_path, *options, app=f"apps:{app}", command=command, env=env) as service:
        expected = 308 if "--redirect-https" in options else 200
        asked = ["/", "/"]
        asked += ["/metrics"] if "--metrics" in options else []
        asked += ["/files/page.html", "/health"] if "--static" in options else []
        for path in asked:
            assert service.ask("GET", path, X_Forwarded_For="192.0.2.1", Accept_Encoding="gzip")[0] == expected
        assert service.ask("POST", "/", Content_Length="0", X_Forwarded_For="::FFFF:192.0.2.1")[0] == expected
        if expected == 200 and app == "app":
            assert "192.0.2.1" in service.get("/client", X_Forwarded_For="192.0.2.1, 0:0:0:0:0:0:0:1")
        # The client leaves before the response.
        service.ask_later("/").close()
        assert service.end() == 0, service.log.text
    assert "is not yours" not in service.log.text
    assert "Error" not in service.log.text
