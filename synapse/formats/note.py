"""Signed checkpoints as text: a note in the format of C2SP (signed-note, tlog-checkpoint), signed
with Ed25519. Pure; `cryptography` is imported when something is signed or checked.

A note has the name of the log, how many records it has, and the chain of the last one as the root
hash. The line behind these has the first bytes of the chain of every record since the note before,
so that the first record that differs can be named.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Sequence

from synapse.errors import InvalidEntry, NoKey
from synapse.system import extras
from synapse.system.digest import sha256
from synapse.system.typed import Any, NamedTuple

ED25519 = b"\x01"
PREFIX = 6  # bytes of the chain of each record: 2**48 tries to meet one
LONGEST = 1 << 20  # characters of a note
_ORIGIN = re.compile("synapse-journal/[0-9a-f]{32}")
_NAME = re.compile(r"[!-*,-~]+")  # visible, without a plus
_SIGNATURE = re.compile(r"\u2014 ([!-*,-~]+) ([A-Za-z0-9+/]+={0,2})")
_NUMBER = re.compile("[1-9][0-9]{0,17}")


class Checkpoint(NamedTuple):
    """What was signed: the log `origin` had `size` records, and the last one's chain was `chain`.
    `prefixes` are the first bytes of the chains of the last records, the one of `size` included.
    """

    origin: str
    size: int
    chain: str
    prefixes: tuple[bytes, ...]


class Key(NamedTuple):
    """A public key with its name, as `vkey` writes it."""

    name: str
    public: bytes

    @property
    def hash(self) -> bytes:
        return bytes.fromhex(sha256(self.name.encode(), b"\n" + ED25519 + self.public)[:8])

    @property
    def vkey(self) -> str:
        return f"{self.name}+{self.hash.hex()}+{b64encode(ED25519 + self.public).decode()}"


def origin_of(first: str) -> str:
    """Return the name of the log whose first record has this chain."""
    return f"synapse-journal/{first[:32]}"


def text_of(checkpoint: Checkpoint) -> str:
    """Return what is signed."""
    root = b64encode(bytes.fromhex(checkpoint.chain)).decode()
    prefixes = b64encode(b"".join(checkpoint.prefixes)).decode()
    return f"{checkpoint.origin}\n{checkpoint.size}\n{root}\nchains {prefixes}\n"


def sign(checkpoint: Checkpoint, key: Key, secret: bytes) -> str:
    """Return the note of a checkpoint, signed."""
    text = text_of(checkpoint)
    signature = b64encode(key.hash + _private(secret).sign(text.encode())).decode()
    return f"{text}\n\u2014 {key.name} {signature}\n"


def opened(note: str, key: Key) -> Checkpoint:
    """Return the checkpoint of a note that this key signed; InvalidEntry says what is wrong."""
    if len(note) > LONGEST:
        raise InvalidEntry("it is longer than any checkpoint")
    text, blank_line, tail = note.partition("\n\n")
    text += "\n"
    lines = tail.splitlines(keepends=True)
    if not blank_line or not lines or not all(line.endswith("\n") for line in lines):
        raise InvalidEntry("it is no signed note")
    signatures = [_SIGNATURE.fullmatch(line[:-1]) for line in lines]
    ours = [
        raw
        for match in signatures
        if match and match[1] == key.name and (raw := _decode(match[2]))[:4] == key.hash
    ]
    if not all(signatures) or len(ours) != 1:
        raise InvalidEntry(f"it is not signed by {key.name}")
    if not _verifies(key.public, ours[0][4:], text.encode()):
        raise InvalidEntry("its signature is not that of its text")
    return _checkpoint(text)


def _checkpoint(text: str) -> Checkpoint:
    parts = text.split("\n")
    if len(parts) != 5 or not parts[3].startswith("chains "):
        raise InvalidEntry("it is no checkpoint of a journal")
    origin, size, root, chains, _ = parts
    if not _ORIGIN.fullmatch(origin) or not _NUMBER.fullmatch(size):
        raise InvalidEntry("it is no checkpoint of a journal")
    chain, raw = _decode(root), _decode(chains.removeprefix("chains "))
    if len(chain) != 32 or len(raw) % PREFIX or len(raw) // PREFIX > int(size):
        raise InvalidEntry("its hashes are not whole")
    prefixes = tuple(raw[i : i + PREFIX] for i in range(0, len(raw), PREFIX))
    return Checkpoint(origin, int(size), chain.hex(), prefixes)


def key_of(vkey: str) -> Key:
    """Return a key as `vkey` writes it; InvalidEntry where it is none."""
    name, _, encoding = vkey.strip().partition("+")
    digest, _, encoded = encoding.partition("+")
    raw = _decode(encoded)
    key = Key(name, raw[1:])
    well_formed = _NAME.fullmatch(name) and raw[:1] == ED25519 and len(raw) == 33
    if not well_formed or key.hash.hex() != digest:
        raise InvalidEntry(f"{vkey[:100]!a} is no public key: write NAME+HASH+KEY")
    return key


def public_of(name: str, secret: bytes) -> Key:
    """Return the public half of a secret."""
    return Key(name, _private(secret).public_key().public_bytes_raw())


def _decode(text: str) -> bytes:
    try:
        raw = b64decode(text, validate=True)
    except ValueError:
        return b""
    return raw if b64encode(raw).decode() == text else b""


def _private(secret: bytes) -> Any:
    return _ed25519().Ed25519PrivateKey.from_private_bytes(secret)


def _verifies(public: bytes, signature: bytes, text: bytes) -> bool:
    curve = _ed25519()
    from cryptography.exceptions import InvalidSignature

    try:
        curve.Ed25519PublicKey.from_public_bytes(public).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise NoKey(
            "checkpoints are signed with the package cryptography, 50 or later, which is not"
            f" installed: {extras.installation('crypto')}"
        ) from error
    return ed25519


__all__: Sequence[str] = "Checkpoint Key key_of opened origin_of public_of sign text_of".split()
