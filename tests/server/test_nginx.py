"""The shipped nginx.conf, run by a real nginx, with the shipped client before it."""

import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from decobandit.client import Client, clients
from decobandit.client.exchange import Sender
from helpers.web_client import Site
from helpers.web_server import PATIENCE, served

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
SHIPPED = Path(__file__).resolve().parents[2] / "deploy" / "nginx.conf"

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")


def certificate(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "trials.example.org")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (folder / "key.pem").write_bytes(text)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


@contextmanager
def proxied(folder: Path, upstream: int, **changes: str) -> Iterator[str]:
    """The address of a proxy with the shipped configuration but for ports, files and `changes`."""
    assert NGINX is not None
    certificate(folder)
    plain, tls = free_port(), free_port()
    text = SHIPPED.read_text(encoding="utf-8")
    text = re.sub(r"\n *listen \[::\].*", "", text)
    for before, after in {
        "listen 80;": f"listen 127.0.0.1:{plain};",
        "listen 443 ssl;": f"listen 127.0.0.1:{tls} ssl;",
        "server 127.0.0.1:8000;": f"server 127.0.0.1:{upstream};",
        "/etc/ssl/trials.example.org.pem": str(folder / "cert.pem"),
        "/etc/ssl/private/trials.example.org.key": str(folder / "key.pem"),
        **changes,
    }.items():
        assert before in text, before
        text = text.replace(before, after)
    temporary = "".join(
        f"{kind}_temp_path {folder / kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;\n" if os.geteuid() == 0 else ""
    file = folder / "nginx.conf"
    file.write_text(
        f"{user}daemon off;\nworker_processes 1;\npid {folder / 'pid'};\n"
        f"error_log {folder / 'error.log'};\nevents {{}}\n"
        f"http {{\naccess_log off;\n{temporary}{text}\n}}\n",
        encoding="utf-8",
    )
    command = [NGINX, "-p", str(folder), "-c", str(file), "-e", str(folder / "error.log")]
    tested = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stderr
    process = subprocess.Popen(command)
    try:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", tls), 1).close()
                break
            except OSError:
                time.sleep(0.02)
        yield f"https://127.0.0.1:{tls}"
    finally:
        process.terminate()
        process.wait(PATIENCE)


def trusting(**more: Any) -> httpx.Client:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return httpx.Client(verify=context, **more)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("proxied"))
    made.trial(policy="equal")
    yield made
    made.close()


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the client waited; here it waits a tenth of that, at least what nginx needs."""
    pauses: list[float] = []
    sleep = time.sleep

    def shorter(seconds: float) -> None:
        pauses.append(seconds)
        sleep(min(seconds, 0.6))

    monkeypatch.setattr(clients, "Sender", partial(Sender, sleep=shorter))
    return pauses


def test_login_works_with_a_port_and_trials_through_the_proxy(site: Site, tmp_path: Path) -> None:
    with served(site.app) as port, proxied(tmp_path, port) as url, trusting() as browser:
        form = {"token": site.tokens["viewer"]}
        entered = browser.post(f"{url}/login", data=form, headers={"Origin": url})
        assert entered.status_code == 303
        assert "Secure" in entered.headers["set-cookie"]
        assert browser.get(f"{url}/metrics").status_code == 404
        other = browser.post(f"{url}/login", data=form, headers={"Origin": "https://evil.example"})
        assert other.status_code == 403
        with Client(url, site.tokens["admin"], http=trusting()) as client:
            assert client.open_trial("pilot").status().name == "pilot"
        large = browser.post(f"{url}/api/v1/plan", content=b" " * 300_000)
        assert large.json()["error"]["code"] == "too_large"


def test_the_client_obeys_the_limit_of_the_proxy(
    site: Site, tmp_path: Path, waited: list[float]
) -> None:
    slow = {"rate=500r/s": "rate=2r/s", "burst=1000": "burst=1"}
    with (
        served(site.app) as port,
        proxied(tmp_path, port, **slow) as url,
        trusting() as browser,
        Client(url, site.tokens["admin"], http=trusting()) as client,
    ):
        trial = client.open_trial("pilot")
        assert [trial.status().name for _ in range(5)] == ["pilot"] * 5
        assert waited
        assert set(waited) <= {1.0}  # what the proxy asked for
        answers = [browser.get(f"{url}/api/v1/health") for _ in range(5)]
    refused = [each for each in answers if each.status_code != 200]
    assert {each.status_code for each in refused} == {429}
    assert {each.json()["error"]["code"] for each in refused} == {"too_many_requests"}
    assert {each.headers["Retry-After"] for each in refused} == {"1"}


def test_the_client_outlasts_a_restart_of_the_server(
    site: Site, tmp_path: Path, waited: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    monkeypatch.setattr("helpers.web_server.listen", _on(port))
    with ExitStack() as stack:
        url = stack.enter_context(proxied(tmp_path, port))
        down = stack.enter_context(trusting()).get(f"{url}/api/v1/health")
        assert (down.status_code, down.headers["Retry-After"]) == (503, "5")
        assert down.json()["error"]["code"] == "unavailable"

        def started(response: httpx.Response) -> None:
            if response.status_code == 503:  # the server starts while the client waits
                stack.enter_context(served(site.app))

        http = trusting(event_hooks={"response": [started]})
        client = stack.enter_context(Client(url, site.tokens["admin"], http=http))
        trial = client.open_trial("pilot")
        allocation = trial.ask(subject="S-restart")
        assert waited == [5.0]
        assert trial.tell(allocation.id, "good").outcome == 1


def _on(port: int) -> Any:
    from decobandit.server.http_server import listen

    return lambda host, _: listen(host, port)
