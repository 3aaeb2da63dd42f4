"""Signatures of webhooks, as the Standard Webhooks specification has them: made for what goes out,
checked for what comes in.

Pure: the time is an argument. No secret is read here.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Iterable, Mapping

from synapse.errors import Forbidden, InvalidEntry

PREFIX = "whsec_"
TOLERANCE = 300  # seconds that a delivery may be old, or ahead
SHORTEST, LONGEST = 24, 64  # bytes of a key
ID_LENGTH = 256


def key_of(secret: str) -> bytes:
    """Return the bytes of a secret such as `whsec_` and base64; InvalidEntry where it is none."""
    text = secret.strip()
    if text.startswith(PREFIX):
        text = text.removeprefix(PREFIX)
        try:
            key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if SHORTEST <= len(key) <= LONGEST:
            return key
    raise InvalidEntry(
        f"a secret of a webhook is {PREFIX} and {SHORTEST} to {LONGEST} random bytes as"
        f" base64: printf {PREFIX}; head -c 32 /dev/urandom | base64"
    )


def sign(key: bytes, id: str, timestamp: int, body: bytes) -> str:
    """Return the signature of one delivery, `v1,` and base64."""
    signed = b"%s.%d.%s" % (id.encode(), timestamp, body)
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


def headers_of(keys: Iterable[bytes], id: str, now: int, body: bytes) -> dict[str, str]:
    """Return the headers that sign a delivery; `now` is in seconds. With several keys, as while one
    takes over from another, it has a signature by each.
    """
    return {
        "webhook-id": id,
        "webhook-timestamp": str(now),
        "webhook-signature": " ".join(sign(key, id, now, body) for key in keys),
    }


def verify(keys: Iterable[bytes], headers: Mapping[str, str], body: bytes, now: float) -> str:
    """Return the id of a delivery that one of the keys signed less than five minutes ago; Forbidden
    says what is wrong. `now` is in seconds, and names of headers are in lower case.
    """
    id = headers.get("webhook-id", "")
    stamp = headers.get("webhook-timestamp", "")
    sent = headers.get("webhook-signature", "")
    if not (id and stamp and sent) or len(id) > ID_LENGTH:
        raise Forbidden(
            "the delivery is not signed: it needs webhook-id, webhook-timestamp and"
            " webhook-signature"
        )
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):
        raise Forbidden("webhook-timestamp is not a number of seconds")
    if abs(now - int(stamp)) > TOLERANCE:
        raise Forbidden(f"the delivery is from more than {TOLERANCE // 60} minutes ago, or ahead")
    signatures = [text for text in sent.split(" ") if text.startswith("v1,")]
    for key in keys:
        expected = sign(key, id, int(stamp), body).encode()
        for text in signatures:
            if hmac.compare_digest(expected, text.encode("utf-8", "surrogateescape")):
                return id
    raise Forbidden("the signature is not this hook's")
