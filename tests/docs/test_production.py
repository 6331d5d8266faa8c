"""The files of docs/how-to/production.md: proxies in front that work, and configurations that fit the server's."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from oneloop.http import Client
from tests.docs.examples import ROOT, blocks
from tests.ecosystem.conftest import accepts, running
from tests.ports import free_port

PAGE = ROOT / "docs/how-to/production.md"
DASHBOARD = ROOT / "docs/how-to/production/dashboard.json"


def file_named(name: str) -> str:
    """The block of the page whose first line, or the line before it, names the file."""
    return next(b.text for b in blocks(PAGE) if b.named == name or b.text.startswith(f"# {name}\n"))


def settings() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(file_named("oneloop.toml"))["serve"]
    return found


def yaml_named(name: str) -> Any:
    yaml = pytest.importorskip("yaml", reason="needs the package PyYAML")
    return yaml.safe_load(file_named(name))


@pytest.fixture
def metrics_of_a_server(tmp_path: Path) -> Any:
    """The address of a server with the page's application and configuration."""
    for name in ("app.py", "oneloop.toml"):
        (tmp_path / name).write_text(file_named(name))
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "oneloop",
        "serve",
        "--config",
        "oneloop.toml",
        "--workers",
        "1",
        "--port",
        str(port),
    ]
    with running(command, tmp_path / "log", lambda: accepts(("127.0.0.1", port)), cwd=tmp_path):
        yield port


def test_the_dashboard_has_metrics_of_the_server(metrics_of_a_server: int) -> None:
    with Client(base_url=f"http://127.0.0.1:{metrics_of_a_server}") as client:
        assert client.get("/").text == "hello"
        answer = client.get("/health")
        assert (answer.status_code, answer.text) == (200, "")
        shown = client.get("/metrics").text
    names = set(re.findall(r"^([a-z_]+)", shown, re.MULTILINE))
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked = {name for text in expressions for name in re.findall(r"\b((?:oneloop|process)_[a-z_]+)\{", text)}
    assert len(asked) >= 7
    assert asked <= names
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_nginx_passes_requests_on(metrics_of_a_server: int, tmp_path: Path) -> None:
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
    if nginx is None:
        pytest.skip("needs the program nginx")
    port = free_port()
    text = file_named("nginx.conf").replace("127.0.0.1:8000", f"127.0.0.1:{metrics_of_a_server}")
    text = text.replace("listen 8001", f"listen 127.0.0.1:{port}")
    names = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    folders = "".join(f"    {name}_temp_path {tmp_path}/{name};\n" for name in names)
    text = text.replace("http {\n", f"http {{\n    access_log off;\n{folders}")
    (tmp_path / "nginx.conf").write_text(f"daemon off;\nmaster_process off;\npid {tmp_path}/pid;\n{text}")
    command = [nginx, "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"), "-e", "stderr"]
    checked = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    with running(command, tmp_path / "nginx.log", lambda: accepts(("127.0.0.1", port))), Client() as client:
        assert client.get(f"http://127.0.0.1:{port}/").text == "hello"
        assert client.get(f"http://127.0.0.1:{port}/metrics").status_code == 404
    # The forwarded address is in the access log.
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines() if line.startswith("{")]
    assert any("127.0.0.1" in str(line) for line in lines)


def test_caddy_accepts_its_file(tmp_path: Path) -> None:
    caddy = shutil.which("caddy")
    if caddy is None:
        pytest.skip("needs the program caddy")
    (tmp_path / "Caddyfile").write_text(file_named("Caddyfile"))
    command = [caddy, "validate", "--adapter", "caddyfile", "--config", str(tmp_path / "Caddyfile")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_kubernetes_waits_as_long_as_the_server() -> None:
    deployment = yaml_named("deployment.yaml")
    pod = deployment["spec"]["template"]
    [container] = pod["spec"]["containers"]
    assert deployment["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    _, pause_s = container["lifecycle"]["preStop"]["exec"]["command"]
    wanted = settings()
    assert pod["spec"]["terminationGracePeriodSeconds"] > int(pause_s) + wanted["timeout-graceful-shutdown"]
    for probe in ("readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": wanted["health"], "port": wanted["port"]}
    assert pod["metadata"]["annotations"]["prometheus.io/path"] == wanted["metrics"]
    assert container["args"][:4] == ["oneloop", "serve", "--config", "oneloop.toml"]
    assert wanted["workers"] == "auto"
    # Workers are replaced before the kernel kills one.
    assert 2 * int(wanted["limit-memory"].removesuffix("m")) < 1024
    assert container["resources"]["limits"] == {"cpu": "2", "memory": "1Gi"}


def test_prometheus_asks_where_the_server_answers() -> None:
    [job] = yaml_named("prometheus.yaml")["scrape_configs"]
    assert job["metrics_path"] == settings()["metrics"]
    assert job["static_configs"] == [{"targets": [f"127.0.0.1:{settings()['port']}"]}]


@pytest.mark.parametrize("name", ["traced.py", "reported.py"])
def test_programs_that_are_not_run_are_python(name: str) -> None:
    names = {node.id for node in ast.walk(ast.parse(file_named(name))) if isinstance(node, ast.Name)}
    assert "app" in names
