"""Files of private keys, behind a passphrase or plain. Behind one, both halves are encrypted
PKCS #8, each with the password that scrypt makes of the passphrase.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Mapping

from synapse import crypto
from synapse.crypto import PrivateKey
from synapse.errors import NoKey, SealError
from synapse.system import extras
from synapse.system.typed import Any

_SCRYPT, _MOST = (1 << 17, 8, 1), (1 << 20, 16, 4)  # n, r, p: 128 MiB and about half a second


def file_text(key: PrivateKey, created: str, passphrase: str) -> str:
    """Return a private key as its file holds it, plain where the passphrase is empty."""
    if not passphrase:
        return crypto.private_text(key, created)
    fields = {"version": 2, "owner": key.owner, "id": key.id, "created": created}
    x25519, ed25519, forms = _library()
    salt, form = os.urandom(16), (forms.Encoding.PEM, forms.PrivateFormat.PKCS8)
    cipher = forms.BestAvailableEncryption(_password(passphrase, salt, *_SCRYPT))
    halves = {
        "seal": x25519.X25519PrivateKey.from_private_bytes(key.seal),
        "sign": ed25519.Ed25519PrivateKey.from_private_bytes(key.sign),
    }
    texts = {name: half.private_bytes(*form, cipher).decode() for name, half in halves.items()}
    scrypt = {"salt": base64.b64encode(salt).decode(), **dict(zip("nrp", _SCRYPT, strict=True))}
    return json.dumps(fields | {"scrypt": scrypt} | texts, indent=1) + "\n"


def is_locked(raw: bytes) -> bool:
    """Return whether the private key in a file is behind a passphrase."""
    try:
        return bool(json.loads(raw)["version"] == 2)
    except (ValueError, KeyError, TypeError):
        return False


def key_of(raw: bytes, passphrase: Callable[[], str]) -> PrivateKey:
    """Return the private key in a file; the passphrase is asked for where it is behind one."""
    if not is_locked(raw):
        return crypto.private_from(raw)
    try:
        got = json.loads(raw)
        key = PrivateKey(str(got["owner"]), *_halves(got, passphrase()))
        if key.id == got["id"]:
            return key
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise SealError("the file holds no private key of version 2")


def _halves(got: Mapping[str, Any], passphrase: str) -> list[bytes]:
    _, _, forms = _library()
    scrypt = got["scrypt"]
    cost = [min(int(scrypt[name]), most) for name, most in zip("nrp", _MOST, strict=True)]
    password = _password(passphrase, base64.b64decode(scrypt["salt"]), *cost)
    try:
        keys = [
            forms.load_pem_private_key(got[name].encode(), password) for name in ("seal", "sign")
        ]
    except ValueError:
        raise SealError("it is behind another passphrase, or damaged") from None
    return [key.private_bytes_raw() for key in keys]


def _password(passphrase: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    from hashlib import scrypt

    memory = 256 * n * r  # bytes, twice what it needs
    raw = scrypt(passphrase.encode(), salt=salt, n=n, r=r, p=p, maxmem=memory, dklen=32)
    return base64.b64encode(raw)


def _library() -> tuple[Any, Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519, x25519
    except ImportError:
        how = extras.installation("crypto")
        raise NoKey(f"keys need the package cryptography: {how}", package="cryptography") from None
    return x25519, ed25519, serialization
