"""SHA-256 as hexadecimal text, for every module that names bytes by their digest, and BLAKE2b.

A process that writes one line uses Python's own implementation: OpenSSL takes longer to load than
the hashing takes. A process that hashes much has loaded OpenSSL, which is several times as fast.
"""

from __future__ import annotations

import sys

try:
    from _blake2 import blake2b as blake2b  # what `hashlib` has too, without OpenSSL
except ImportError:
    from hashlib import blake2b as blake2b

SHORT = 1 << 16


def sha256(*parts: bytes) -> str:
    """Return the digest of the parts, joined."""
    raw = b"".join(parts)
    if "_hashlib" not in sys.modules and len(raw) <= SHORT:
        name = "_sha256" if sys.version_info < (3, 12) else "_sha2"
        try:
            return str(__import__(name).sha256(raw).hexdigest())
        except ImportError:
            pass  # this Python has OpenSSL's alone
    import hashlib

    return hashlib.sha256(raw).hexdigest()
