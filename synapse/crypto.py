"""Sealing and signing: an entry's body for some readers alone, and proof of who wrote it.

Bytes and texts in, bytes and texts out: PROTOCOL.md has the format, to the byte. Every primitive
is the `cryptography` package's, which is imported when the first key is used and not before. Knows
no workspace, no agents and no files; called by `synapse.trust.keyring`.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache
from operator import attrgetter

from synapse.errors import NoKey, SealError
from synapse.model.entry import Entry
from synapse.model.entry_fields import ALWAYS, FIELDS, WHEN_SET
from synapse.system import extras
from synapse.system.digest import sha256
from synapse.system.typed import Any, NamedTuple

BEGIN = "-----BEGIN SYNAPSE SEALED ENTRY-----"
END = "-----END SYNAPSE SEALED ENTRY-----"
MAX_PLAIN = 700 << 10  # bytes, so that the sealed text is no longer than a body may be
MOST = 1_000  # recipients

_SEALED = b"synapse sealed entry v1\0"
_SIGNED = b"synapse signed entry v1\0"
_SHARED = b"synapse shared key v1\0"
_PUBLIC = b"synapse public key v1\0"
_MAGIC = b"SYN\x01"
_ID, _WRAP, _NONCE, _SIGNATURE = 16, 80, 12, 64  # bytes
_UNSIGNED = b"\0" * (_ID + _SIGNATURE)
_LINE = 76


class PublicKey(NamedTuple):
    """The public halves of a key: X25519, to which is sealed, and Ed25519, which proves who signed.
    `id` is the digest of both, in 32 hex digits; `owner` is an agent, or the workspace."""

    owner: str
    seal: bytes
    sign: bytes

    @property
    def id(self) -> str:
        return sha256(_PUBLIC + self.seal + self.sign)[: 2 * _ID]


class PrivateKey(NamedTuple):
    """The private halves of a key, in their raw form."""

    owner: str
    seal: bytes
    sign: bytes

    @property
    def public(self) -> PublicKey:
        return _public(self)

    @property
    def id(self) -> str:
        return self.public.id


def new_key(owner: str) -> PrivateKey:
    """Return a new key, by the randomness of the operating system."""
    curves = _load()
    pair = curves.X25519PrivateKey.generate(), curves.Ed25519PrivateKey.generate()
    return PrivateKey(owner, *(half.private_bytes_raw() for half in pair))


def header(entry: Entry) -> bytes:
    """Return the canonical header: what the author set of an entry beside its body, its id left
    out, as JSON.
    """
    fields: dict[str, Any] = dict(zip(_FIRST, _first_of(entry), strict=True))
    fields |= {key: value for key, name in _LATER.items() if (value := getattr(entry, name))}
    fields |= {"v": 1, "priority": entry.claimed or entry.priority, "to": sorted(entry.addressees)}
    text = json.dumps(fields, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return text.encode()


def _header_names(sealed: str) -> dict[str, str]:
    """Return the fields that are sealed so, by their names in a header: those in a file, but for
    the author.
    """
    fields = (field for field in FIELDS if field.sealed == sealed)
    return {
        "author" if field.name == "author" else field.key or field.name: field.name
        for field in fields
    }


_FIRST, _LATER = _header_names(ALWAYS), _header_names(WHEN_SET)
_first_of = attrgetter(*_FIRST.values())


# -- sealing ---------------------------------------------------------------------------------------


def seal(
    body: str, header: bytes, recipients: Iterable[PublicKey], signer: PrivateKey | None = None
) -> str:
    """Return the envelope of a body: text that these keys open, and no others."""
    plain, keys = body.encode(), {key.id: key for key in recipients}
    if not keys:
        raise SealError("it is sealed to nobody: name a recipient")
    if len(plain) > MAX_PLAIN or len(keys) > MOST:
        raise SealError(f"sealed is at most {MAX_PLAIN >> 10} KiB, and for {MOST} recipients")
    curves, key, nonce = _load(), os.urandom(32), os.urandom(_NONCE)
    listed = _MAGIC + struct.pack(">H", len(keys))
    for id, recipient in sorted(keys.items()):
        listed += bytes.fromhex(id) + _wrap(key, header, recipient)
    cipher = curves.AESGCM(key).encrypt(nonce, plain, _cover(header, listed))
    raw = listed + nonce + struct.pack(">I", len(cipher)) + cipher
    if signer is None:
        return _armour(raw + _UNSIGNED)
    signature = _ed25519(signer.sign).sign(_SEALED + _cover(header, raw))
    return _armour(raw + bytes.fromhex(signer.id) + signature)


def unseal(envelope: str, header: bytes, key: PrivateKey, signer: PublicKey | None = None) -> str:
    """Return the body in an envelope; SealError says why it is refused. `signer` is the key whose
    signature it must carry; None where it must carry none.
    """
    parts = _parse(envelope)
    _check_signature(parts, header, signer)
    return _open(parts, header, _entry_key(parts, header, key))


def unseal_shared(
    envelope: str, header: bytes, share: str, key: PrivateKey, signer: PublicKey | None = None
) -> str:
    """Return the body in an envelope by what a holder shared with this key."""
    parts = _parse(envelope)
    _check_signature(parts, header, signer)
    return _open(parts, header, _shared_key(envelope, header, share, key))


def share(envelope: str, header: bytes, key: PrivateKey, to: PublicKey, given: str = "") -> str:
    """Return the entry's key, which this key opens, wrapped for one more: text. `given` is the
    share by which this key came to it, where it is not among the recipients.
    """
    parts = _parse(envelope)
    if given:
        entry_key = _shared_key(envelope, header, given, key)
    else:
        entry_key = _entry_key(parts, header, key)
    _open(parts, header, entry_key)  # what is shared opens it
    context = _about_share(envelope, header, to.id)
    raw = _suite().encrypt(entry_key, _x25519_public(to.seal), context)
    return base64.b64encode(raw).decode()


def recipients_of(envelope: str) -> tuple[str, ...]:
    """Return the ids of the keys that an envelope is sealed to."""
    return tuple(_parse(envelope).wraps)


def signer_of(text: str) -> str:
    """Return the id of the key that signed an envelope, or made a signature; empty for none."""
    if is_envelope(text):
        return _parse(text).signer
    return text.partition(".")[0]


def is_envelope(body: str) -> bool:
    """Return whether a body is an envelope of this form, whole, and one that can be read."""
    if not body.startswith(BEGIN):
        return False
    try:
        _parse(body)
    except SealError:
        return False
    return True


def check(envelope: str, header: bytes, signer: PublicKey) -> None:
    """Raise SealError where an envelope is not signed by this key over this header."""
    _check_signature(_parse(envelope), header, signer)


class _Parts(NamedTuple):
    listed: bytes  # from the start to the end of the list of recipients
    wraps: dict[str, bytes]
    nonce: bytes
    cipher: bytes
    covered: bytes  # all that is signed
    signer: str
    signature: bytes


def _wrap(key: bytes, header: bytes, recipient: PublicKey) -> bytes:
    info = _about(header, recipient.id)
    return bytes(_suite().encrypt(key, _x25519_public(recipient.seal), info))


def _about(header: bytes, id: str) -> bytes:
    return _SEALED + bytes.fromhex(id) + bytes.fromhex(sha256(header))


def _about_share(envelope: str, header: bytes, id: str) -> bytes:
    digests = sha256(header) + sha256(envelope.encode())
    return _SHARED + bytes.fromhex(id) + bytes.fromhex(digests)


def _cover(header: bytes, raw: bytes) -> bytes:
    return struct.pack(">I", len(header)) + header + raw


def _armour(raw: bytes) -> str:
    text = base64.b64encode(raw).decode()
    lines = [text[at : at + _LINE] for at in range(0, len(text), _LINE)]
    return "\n".join((BEGIN, *lines, END))


def _parse(envelope: str) -> _Parts:
    """Return the parts of an envelope; SealError where one byte of its form is another."""
    body = envelope.removeprefix(BEGIN).removesuffix(END)
    try:
        raw = base64.b64decode(body.replace("\n", ""), validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if not raw.startswith(_MAGIC) or _armour(raw) != envelope:
        raise SealError("this is no sealed entry of version 1, or not as it was sealed")
    try:
        (count,) = struct.unpack_from(">H", raw, 4)
        at = 6 + count * (_ID + _WRAP)
        (length,) = struct.unpack_from(">I", raw, at + _NONCE)
    except struct.error:
        raise SealError("the sealed entry is cut off") from None
    start = at + _NONCE + 4
    end = start + length
    if not count or length < 16 or len(raw) != end + _ID + _SIGNATURE:
        raise SealError("the sealed entry is cut off, or has more than its parts")
    wraps = {}
    for slot in range(6, at, _ID + _WRAP):
        id, wrap = raw[slot : slot + _ID], slot + _ID
        wraps[id.hex()] = raw[wrap : wrap + _WRAP]
    if list(wraps) != sorted(wraps) or len(wraps) != count:
        raise SealError("the recipients of the sealed entry are not in their order")
    tail = raw[end:]
    signer = "" if tail == _UNSIGNED else tail[:_ID].hex()
    nonce = raw[at : at + _NONCE]
    return _Parts(raw[:at], wraps, nonce, raw[start:end], raw[:end], signer, tail[_ID:])


def _check_signature(parts: _Parts, header: bytes, signer: PublicKey | None) -> None:
    if signer is None and not parts.signer:
        return
    if signer is None:
        raise SealError(f"the entry is signed by a key nobody registered: {parts.signer}")
    if parts.signer != signer.id:
        by = f"the key {parts.signer}" if parts.signer else "nobody"
        raise SealError(f"the entry is signed by {by}, not by {signer.owner}'s {signer.id}")
    message = _SEALED + _cover(header, parts.covered)
    _verify(signer, parts.signature, message)


def _entry_key(parts: _Parts, header: bytes, key: PrivateKey) -> bytes:
    if key.id not in parts.wraps:
        raise NoKey(
            f"the entry is not sealed to {key.owner}'s key {key.id}; it is to"
            f" {', '.join(parts.wraps)}"
        )
    return _unwrap(parts.wraps[key.id], _about(header, key.id), key)


def _shared_key(envelope: str, header: bytes, share: str, key: PrivateKey) -> bytes:
    try:
        raw = base64.b64decode(share, validate=True)
    except (binascii.Error, ValueError):
        raise SealError("what was shared is not readable") from None
    return _unwrap(raw, _about_share(envelope, header, key.id), key)


def _unwrap(raw: bytes, about: bytes, key: PrivateKey) -> bytes:
    try:
        return bytes(_suite().decrypt(raw, _x25519(key.seal), about))
    except (_load().InvalidTag, ValueError):
        raise SealError(
            f"{key.owner}'s key {key.id} does not open it: the header or the list of"
            " recipients is not the one that was sealed"
        ) from None


def _open(parts: _Parts, header: bytes, entry_key: bytes) -> str:
    try:
        cipher = _load().AESGCM(entry_key)
        covered = _cover(header, parts.listed)
        return str(cipher.decrypt(parts.nonce, parts.cipher, covered).decode())
    except (_load().InvalidTag, ValueError):
        raise SealError("the body or the header is not what was sealed") from None


# -- signing ---------------------------------------------------------------------------------------


def sign(body: str, header: bytes, key: PrivateKey) -> str:
    """Return the signature of an entry that is not sealed: the key's id, a dot, base64."""
    signature = _ed25519(key.sign).sign(_SIGNED + _cover(header, body.encode()))
    return f"{key.id}.{base64.b64encode(signature).decode()}"


def verify(signature: str, body: str, header: bytes, key: PublicKey) -> None:
    """Raise SealError where this is not the key's signature of this body under this header."""
    id, _, text = signature.partition(".")
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if id != key.id or len(raw) != _SIGNATURE or base64.b64encode(raw).decode() != text:
        raise SealError(f"the signature is not one of {key.owner}'s key {key.id}")
    _verify(key, raw, _SIGNED + _cover(header, body.encode()))


def _verify(key: PublicKey, signature: bytes, message: bytes) -> None:
    try:
        _ed25519_public(key.sign).verify(signature, message)
    except _load().InvalidSignature:
        raise SealError(
            f"the signature of {key.owner} does not fit: the entry is not the one that was signed"
        ) from None


# -- keys as text ----------------------------------------------------------------------------------


def private_text(key: PrivateKey, created: str) -> str:
    """Return a private key as its file holds it."""
    fields = {"version": 1, "owner": key.owner, "id": key.id, "created": created}
    halves = {"seal": _b64(key.seal), "sign": _b64(key.sign)}
    return json.dumps(fields | halves, indent=1) + "\n"


def private_from(text: bytes) -> PrivateKey:
    """Return the private key in a file's text."""
    try:
        got = json.loads(text)
        key = PrivateKey(got["owner"], _raw(got["seal"]), _raw(got["sign"]))
        if got["version"] == 1 and isinstance(key.owner, str) and key.id == got["id"]:
            return key
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise SealError("the file holds no private key of version 1")


def public_text(key: PrivateKey) -> str:
    """Return a public key as text to hand on: signed by itself, so that nobody can hand on
    another's as their own.
    """
    fields = public_fields(key.public)
    proof = _ed25519(key.sign).sign(_proof(key.public))
    return json.dumps({"version": 1, **fields, "proof": _b64(proof)}, indent=1) + "\n"


def public_from(text: str | bytes) -> PublicKey:
    """Return the public key in such a text; SealError where it does not prove itself."""
    try:
        got = json.loads(text)
        key, proof = from_fields(got), base64.b64decode(got["proof"], validate=True)
        if got["version"] != 1 or key.id != got["id"]:
            raise SealError("the text holds no public key of version 1")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SealError("the text holds no public key of version 1") from None
    _verify(key, proof, _proof(key))
    return key


def public_fields(key: PublicKey) -> dict[str, str]:
    """Return a public key as fields of a record."""
    halves = {"seal": _b64(key.seal), "sign": _b64(key.sign)}
    return {"owner": key.owner, "id": key.id, **halves}


def from_fields(fields: Mapping[str, Any]) -> PublicKey:
    """Return the public key in the fields of a record; ValueError where there is none."""
    key = PublicKey(str(fields["owner"]), _raw(fields["seal"]), _raw(fields["sign"]))
    if key.id != fields.get("id"):
        raise ValueError("the id of the key is not the digest of its halves")
    return key


def _proof(key: PublicKey) -> bytes:
    return _PUBLIC + key.seal + key.sign + key.owner.encode()


def _b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _raw(text: str) -> bytes:
    raw = base64.b64decode(text, validate=True)
    if len(raw) != 32:
        raise ValueError("a key has 32 bytes")
    return raw


# -- the library -----------------------------------------------------------------------------------


class _Curves(NamedTuple):
    AESGCM: Any
    X25519PrivateKey: Any
    X25519PublicKey: Any
    Ed25519PrivateKey: Any
    Ed25519PublicKey: Any
    hpke: Any
    InvalidTag: type[Exception]
    InvalidSignature: type[Exception]


@lru_cache(maxsize=1)
def _load() -> _Curves:
    """Return what is used of the library; NoKey where it is not installed."""
    try:
        from cryptography.exceptions import InvalidSignature, InvalidTag
        from cryptography.hazmat.primitives import hpke
        from cryptography.hazmat.primitives.asymmetric import ed25519, x25519
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        why = "sealing and signing need the package cryptography, 50 or later"
        how = extras.installation("crypto")
        raise NoKey(f"{why}: {how}", package="cryptography") from None
    return _Curves(
        AESGCM,
        x25519.X25519PrivateKey,
        x25519.X25519PublicKey,
        ed25519.Ed25519PrivateKey,
        ed25519.Ed25519PublicKey,
        hpke,
        InvalidTag,
        InvalidSignature,
    )


@lru_cache(maxsize=1)
def _suite() -> Any:
    """Return HPKE with X25519, HKDF-SHA256 and AES-256-GCM."""
    hpke = _load().hpke
    return hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)


@lru_cache(maxsize=256)
def _public(key: PrivateKey) -> PublicKey:
    seal, sign = _x25519(key.seal), _ed25519(key.sign)
    halves = (half.public_key().public_bytes_raw() for half in (seal, sign))
    return PublicKey(key.owner, *halves)


@lru_cache(maxsize=256)
def _x25519(raw: bytes) -> Any:
    return _load().X25519PrivateKey.from_private_bytes(raw)


@lru_cache(maxsize=256)
def _ed25519(raw: bytes) -> Any:
    return _load().Ed25519PrivateKey.from_private_bytes(raw)


@lru_cache(maxsize=1_024)
def _x25519_public(raw: bytes) -> Any:
    return _load().X25519PublicKey.from_public_bytes(raw)


@lru_cache(maxsize=1_024)
def _ed25519_public(raw: bytes) -> Any:
    return _load().Ed25519PublicKey.from_public_bytes(raw)
