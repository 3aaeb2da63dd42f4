"""Where a session takes place: a home and a repository of its own, and the documentation on
loopback.

Nothing of the machine's user is read: the client gets a clean environment. Called by `session`.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import NamedTuple

from scenarios.clients import repository

HOST = "127.0.0.1"
INSTALL_WITHIN = 120
QUIET = {
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CI": "1",  # hooks start no daemon that outlives the place
}


class Broken(Exception):
    """A session could not be played as it has to be; it says nothing."""


class Place(NamedTuple):
    """The folders of a session, and the environment of everything in it."""

    home: str
    repository: str
    env: Mapping[str, str]

    @property
    def root(self) -> str:
        """Return the workspace of the repository, where there is one."""
        return os.path.join(self.repository, "shared-memory")


def make_place(folder: str, program: str, values: Mapping[str, int]) -> Place:
    """Return a new place: the repository written, its folder trusted, nobody to be asked."""
    home, repo = os.path.join(folder, "home"), os.path.join(folder, "shop")
    os.makedirs(os.path.join(home, ".claude"))
    os.makedirs(repo)
    repository.write(repo, values)
    # Pages on loopback have no entry in the list of domains that the client asks its maker for.
    allow = ["Agent", "Bash", "Edit", "Read", "WebFetch"]
    _write(
        home,
        ".claude/settings.json",
        {"skipWebFetchPreflight": True, "permissions": {"allow": allow}},
    )
    _write(
        home,
        ".claude.json",
        {"projects": {os.path.realpath(repo): {"hasTrustDialogAccepted": True}}},
    )
    path = os.pathsep.join((os.path.dirname(program), "/usr/local/bin", "/usr/bin", "/bin"))
    return Place(home, repo, {"HOME": home, "PATH": path, "LANG": "C.UTF-8", **QUIET})


def install(place: Place, client: str) -> None:
    """Install the plugin as a user does."""
    command = [
        sys.executable,
        "-m",
        "orchestrator",
        "install",
        client,
        "--project",
        place.repository,
    ]
    done = subprocess.run(
        command,
        env=dict(place.env),
        cwd=place.home,
        capture_output=True,
        text=True,
        timeout=INSTALL_WITHIN,
        check=False,
    )
    if done.returncode:
        raise Broken(f"the plugin could not be installed: {done.stderr.strip()[-500:]}")


def _write(folder: str, name: str, values: object) -> None:
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(values, file)


# -- the documentation -----------------------------------------------------------------


class Site:
    """The documentation of the shop, over TLS: clients fetch nothing else. `served` has every page
    that was given, in its order.
    """

    def __init__(self, folder: str) -> None:
        self.served: list[str] = []
        self.values: Mapping[str, int] = {}
        self.certificate = _certificate(folder)
        site = self

        class Pages(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.strip("/")
                is_page = name in repository.PAGES
                raw = repository.page(name, site.values).encode() if is_page else b"not here"
                if is_page:
                    site.served.append(name)
                self.send_response(200 if is_page else 404)
                self.send_header("content-type", "text/html")
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, format: str, *args: object) -> None:
                """Print nothing: there is the list."""

        self._http = ThreadingHTTPServer((HOST, 0), Pages)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.certificate)
        self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self.url = f"https://{HOST}:{self._http.server_address[1]}"
        Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Stop serving."""
        self._http.shutdown()
        self._http.server_close()


@contextmanager
def site(folder: str) -> Iterator[Site]:
    """Yield the documentation while it is served."""
    server = Site(folder)
    try:
        yield server
    finally:
        server.stop()


def _certificate(folder: str) -> tuple[str, str]:
    """Return the files of a certificate for loopback and of its key, made anew."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    paths = os.path.join(folder, "site.pem"), os.path.join(folder, "site.key")
    for path, raw in zip(
        paths, (certificate.public_bytes(pem), key.private_bytes(pem, *private)), strict=True
    ):
        with open(path, "wb") as file:
            file.write(raw)
    return paths
