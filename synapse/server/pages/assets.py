"""The files that a browser fetches: style, scripts, pictures, read once, each under an address
that changes with its bytes.

Called by the frame. Nothing is served that does not lie in one of its folders at the start.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from starlette.responses import Response

KINDS = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
FOREVER = "public, max-age=31536000, immutable"


class Assets:
    """The files by their names (`style.css`, `vendor/htmx.min.js`)."""

    def __init__(self, *folders: Path) -> None:
        self._files: dict[str, tuple[bytes, str]] = {}
        for folder in folders:
            self.add(folder)

    def add(self, folder: Path) -> None:
        for path in sorted(folder.rglob("*")):
            if path.suffix in KINDS and path.is_file():
                raw = path.read_bytes()
                name = path.relative_to(folder).as_posix()
                self._files[name] = (raw, sha256(raw).hexdigest()[:12])

    def address(self, name: str) -> str:
        return f"/static/{name}?v={self._files[name][1]}"

    def response(self, name: str, version: str) -> Response:
        """Return a file; it may be kept for ever under the address with its version."""
        if name not in self._files:
            return Response("there is no such file\n", 404, media_type="text/plain")
        raw, digest = self._files[name]
        caching = FOREVER if version == digest else "no-cache"
        headers = {"Cache-Control": caching, "X-Content-Type-Options": "nosniff"}
        return Response(raw, 200, headers, KINDS[Path(name).suffix])
