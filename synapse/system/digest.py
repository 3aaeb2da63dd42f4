"""SHA-256 as hexadecimal text, by the cheaper of two implementations.

A process that writes one line uses Python's own: OpenSSL takes longer to load than the hashing
takes. A process that hashes much has loaded OpenSSL, which is several times as fast.
"""

from __future__ import annotations

import sys

from synapse.system.typed import Any

SHORT = 1 << 16


def sha256(*parts: bytes) -> str:
    """Return the digest of the parts, one after the other."""
    total = _new(sum(map(len, parts)))
    for part in parts:
        total.update(part)
    text: str = total.hexdigest()
    return text


def _new(size: int) -> Any:
    if "_hashlib" not in sys.modules and size <= SHORT:
        try:
            return __import__(
                "_sha256" if sys.version_info < (3, 12) else "_sha2"
            ).sha256()
        except ImportError:
            pass  # a Python that has OpenSSL's alone
    from hashlib import sha256 as new

    return new()
