"""SHA-256 as hexadecimal text. Who writes a line makes do with Python's own: OpenSSL takes longer
to load than all that it hashes takes. Whoever hashes much has loaded it: it is several times as
fast.
"""

from __future__ import annotations

import sys

from synapse.system.typed import Any

SHORT = 1 << 16


def sha256(*parts: bytes) -> str:
    """The digest of the parts, one after the other."""
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
