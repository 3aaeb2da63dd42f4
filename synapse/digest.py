"""SHA-256 as hexadecimal text. OpenSSL is loaded at the first use: a command that only reads never pays for it."""

from __future__ import annotations


def sha256(*parts: bytes) -> str:
    """The digest of the parts, one after the other."""
    from hashlib import sha256 as new

    total = new()
    for part in parts:
        total.update(part)
    return total.hexdigest()
