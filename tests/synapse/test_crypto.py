"""Envelopes and signatures: vectors, and that whatever was changed is refused."""

import json
import random
from pathlib import Path

import pytest
from cryptography.hazmat.bindings._rust import openssl
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric import x25519
from hypothesis import given
from hypothesis import strategies as st

from synapse import crypto
from synapse.errors import NoKey, SealError
from synapse.model.entry import Entry
from tests.examples import examples

VECTORS = Path(__file__).parents[1] / "vectors"
OURS = json.loads((VECTORS / "sealed.json").read_text())
KEYS = {
    each["id"]: crypto.PrivateKey(
        each["owner"], bytes.fromhex(each["seal"]), bytes.fromhex(each["sign"])
    )
    for each in OURS["keys"]
}
ENTRY = Entry(
    "",
    "eng-a",
    "2026-02-01T01:00:00Z",
    "team/web",
    "important",
    "The door code is 4711.",
    "7d",
    addressees=("agent:eng-b",),
    scope="encrypted",
    tags=("ops",),
)
HEAD = crypto.header(ENTRY)
WHY = (
    "no sealed entry|cut off|in their order|not sealed to|does not open it|signed by"
    "|is not what was sealed|not the one that was signed"
)


@pytest.fixture(scope="module")
def keys():
    return [crypto.new_key(name) for name in ("eng-a", "eng-b", "eng-c")]


@pytest.mark.parametrize("vector", json.loads((VECTORS / "hpke.json").read_text())["vectors"])
def test_the_suite_is_that_of_rfc_9180(vector):
    suite = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)
    names = ("skRm", "pkRm", "info", "enc", "aad", "pt", "ct")
    raw = {name: bytes.fromhex(vector[name]) for name in names}
    key = x25519.X25519PrivateKey.from_private_bytes(raw["skRm"])
    sealed = raw["enc"] + raw["ct"]
    opened = openssl.hpke._decrypt_with_aad(suite, sealed, key, raw["info"], raw["aad"])
    assert opened == raw["pt"]
    assert key.public_key().public_bytes_raw() == raw["pkRm"]


@pytest.mark.parametrize("vector", OURS["sealed"])
def test_our_vectors_open(vector):
    head = vector["header"].encode()
    signer = KEYS[vector["signer"]].public if vector["signer"] else None
    assert sorted(crypto.recipients_of(vector["envelope"])) == vector["recipients"]
    for id in vector["recipients"]:
        assert crypto.unseal(vector["envelope"], head, KEYS[id], signer) == vector["body"]
    shared = vector["envelope"], head, vector["share"], KEYS[vector["shared_with"]]
    assert crypto.unseal_shared(*shared, signer) == vector["body"]


@pytest.mark.parametrize("vector", OURS["signed"])
def test_our_signatures_fit(vector):
    author = KEYS[vector["signature"].partition(".")[0]]
    head = vector["header"].encode()
    assert crypto.sign(vector["body"], head, author) == vector["signature"]
    crypto.verify(vector["signature"], vector["body"], head, author.public)
    with pytest.raises(SealError, match="not the one that was signed"):
        crypto.verify(vector["signature"], vector["body"] + ".", head, author.public)


def test_the_ids_of_our_keys_are_their_digests():
    for each in OURS["keys"]:
        public = KEYS[each["id"]].public
        assert (public.id, public.seal.hex(), public.sign.hex()) == (
            each["id"],
            each["public_seal"],
            each["public_sign"],
        )


def test_every_recipient_opens_it_and_nobody_else(keys):
    author, reader, stranger = keys
    sealed = crypto.seal(ENTRY.body, HEAD, [author.public, reader.public], author)
    assert crypto.unseal(sealed, HEAD, author, author.public) == ENTRY.body
    assert crypto.unseal(sealed, HEAD, reader, author.public) == ENTRY.body
    with pytest.raises(NoKey, match=f"eng-c's key {stranger.id}"):
        crypto.unseal(sealed, HEAD, stranger, author.public)
    assert crypto.is_envelope(sealed)
    assert crypto.signer_of(sealed) == author.id


def test_every_byte_that_is_flipped_is_refused(keys):
    """Not one character of an envelope may be another: the bytes of the list, of the wrapped keys,
    of the body, of the signature, of the armour."""
    author, reader, _ = keys
    for signer in (author, None):
        by = signer and signer.public
        sealed = crypto.seal(ENTRY.body, HEAD, [author.public, reader.public], signer)
        for at, char in enumerate(sealed):
            for other in {"A", "b", "\n", chr(ord(char) ^ 1)} - {char}:
                changed = sealed[:at] + other + sealed[at + 1 :]
                with pytest.raises(SealError, match=WHY):
                    crypto.unseal(changed, HEAD, reader, by)
            with pytest.raises(SealError):
                crypto.unseal(sealed[:at] + sealed[at + 1 :], HEAD, reader, by)


def test_every_bit_of_the_bytes_that_is_flipped_is_refused(keys):
    author, reader, _ = keys
    sealed = crypto.seal(ENTRY.body, HEAD, [author.public, reader.public], None)
    raw = crypto.base64.b64decode("".join(sealed.split("\n")[1:-1]))
    for at in range(len(raw)):
        for bit in range(8):
            changed = bytearray(raw)
            changed[at] ^= 1 << bit
            with pytest.raises(SealError, match=WHY):
                crypto.unseal(crypto._armour(bytes(changed)), HEAD, reader)


@pytest.mark.parametrize(
    "changed",
    [
        {"author": "eng-x"},
        {"namespace": "team/other"},
        {"priority": "critical"},
        {"scope": "private"},
        {"addressees": ("agent:eng-c",)},
        {"kind": "fact"},
        {"topic": "another"},
        {"tags": ()},
        {"related": ("syn-2026-02-01-001",)},
        {"replaces": ("syn-2026-02-01-001",)},
        {"derived_from": ("syn-2026-02-01-001",)},
        {"ttl": "8d"},
        {"evidence": "some"},
        {"when": "spawn"},
        {"claim": "100"},
        {"timestamp": "2026-02-01T01:00:01Z"},
        {"more": {"subject": "another"}},
    ],
)
def test_a_header_that_was_changed_is_refused(keys, changed):
    author, reader, _ = keys
    other = crypto.header(ENTRY._replace(**changed))
    for signer in (author, None):
        sealed = crypto.seal(ENTRY.body, HEAD, [reader.public], signer)
        with pytest.raises(SealError):
            crypto.unseal(sealed, other, reader, signer and signer.public)
    signature = crypto.sign(ENTRY.body, HEAD, author)
    with pytest.raises(SealError):
        crypto.verify(signature, ENTRY.body, other, author.public)


def test_what_the_log_stamps_is_no_part_of_the_header():
    stamped = ENTRY._replace(
        id="syn-2026-02-01-009", seq=9, at=9, expires=9, authority=9, trust="keyed"
    )
    assert crypto.header(stamped) == HEAD
    demoted = ENTRY._replace(priority="info", claimed="important")
    assert crypto.header(demoted) == HEAD


def test_recipients_that_change_places_are_refused(keys):
    """The wrapped keys of two recipients, each under the other's name; and another's name."""
    author, reader, third = keys
    sealed = crypto.seal(ENTRY.body, HEAD, [reader.public, third.public], None)
    raw = raw_of(sealed)
    one, two, rest = raw[6:102], raw[102:198], raw[198:]
    for first, second in (
        (one[:16] + two[16:], two[:16] + one[16:]),
        (two, one),
        (one, one),
        sorted((one, bytes.fromhex(author.id) + two[16:])),
        sorted((bytes.fromhex(author.id) + one[16:], two)),
    ):
        changed = crypto._armour(raw[:6] + first + second + rest)
        for key in (reader, third, author):
            with pytest.raises((SealError, NoKey), match=WHY):
                crypto.unseal(changed, HEAD, key)


def test_parts_of_two_envelopes_do_not_make_a_third(keys):
    _, reader, third = keys
    one = crypto.seal("one", HEAD, [reader.public], None)
    two = crypto.seal("two", HEAD, [third.public], None)
    parts = [crypto.base64.b64decode("".join(text.split("\n")[1:-1])) for text in (one, two)]
    mixed = crypto._armour(parts[0][:102] + parts[1][102:])
    for key in (reader, third):
        with pytest.raises(SealError):
            crypto.unseal(mixed, HEAD, key)


def test_the_signature_of_another_is_refused(keys):
    author, reader, third = keys
    by_third = crypto.seal(ENTRY.body, HEAD, [reader.public], third)
    with pytest.raises(SealError, match=f"not by eng-a's {author.id}"):
        crypto.unseal(by_third, HEAD, reader, author.public)
    unsigned = crypto.seal(ENTRY.body, HEAD, [reader.public])
    with pytest.raises(SealError, match="signed by nobody"):
        crypto.unseal(unsigned, HEAD, reader, author.public)
    with pytest.raises(SealError, match="nobody registered"):
        crypto.unseal(by_third, HEAD, reader)
    claimed = third.public._replace(owner="eng-a")
    with pytest.raises(SealError, match="not one of"):
        crypto.verify(crypto.sign("x", HEAD, author), "x", HEAD, claimed)


def test_a_holder_shares_an_entry_with_one_more(keys):
    author, reader, third = keys
    sealed = crypto.seal(ENTRY.body, HEAD, [reader.public], author)
    given = crypto.share(sealed, HEAD, reader, third.public)
    opened = crypto.unseal_shared(sealed, HEAD, given, third, author.public)
    assert opened == ENTRY.body
    on = crypto.share(sealed, HEAD, third, author.public, given)
    assert crypto.unseal_shared(sealed, HEAD, on, author, author.public) == ENTRY.body
    other = crypto.seal(ENTRY.body, HEAD, [reader.public], author)
    for envelope, share, key in [
        (other, given, third),
        (sealed, given, reader),
        (sealed, given[:-8] + "AAAAAAA=", third),
        (sealed, "no base64", third),
    ]:
        with pytest.raises(SealError):
            crypto.unseal_shared(envelope, HEAD, share, key, author.public)
    with pytest.raises(NoKey):
        crypto.share(sealed, HEAD, author, third.public)


def unique(many, keys):
    """How many nonces, content keys and wrapped keys differ in so many envelopes of one text."""
    nonces, contents, wraps = set(), set(), set()
    for _ in range(many):
        parts = crypto._parse(crypto.seal("same", HEAD, [keys[0].public]))
        nonces.add(parts.nonce)
        contents.add(crypto._entry_key(parts, HEAD, keys[0]))
        wraps.update(parts.wraps.values())
    return len(nonces), len(contents), len(wraps)


def test_no_nonce_and_no_key_comes_twice(keys):
    assert unique(500, keys) == (500, 500, 500)


@pytest.mark.soak
def test_no_nonce_and_no_key_comes_twice_in_100_000(keys):
    assert unique(100_000, keys) == (100_000, 100_000, 100_000)


def test_a_key_that_is_drawn_once_is_found_out(keys, monkeypatch):
    monkeypatch.setattr(crypto.os, "urandom", lambda count: bytes(count))
    assert unique(5, keys)[:2] == (1, 1)


# -- forgeries -------------------------------------------------------------------------------------


def raw_of(envelope):
    return crypto.base64.b64decode("".join(envelope.split("\n")[1:-1]))


def forged(draw, sealed, other, keys, stranger):
    """Return an envelope that its author did not seal, in one of the ways there are."""
    raw, its = bytearray(raw_of(sealed)), raw_of(other)
    listed = 6 + 2 * (16 + 80)
    way = draw.randrange(9)
    if way == 0:  # one bit
        raw[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
    elif way == 1:  # some bytes
        at = draw.randrange(len(raw))
        raw[at : at + draw.randrange(1, 9)] = draw.randbytes(draw.randrange(9))
    elif way == 2:  # the wrapped keys of two recipients change places
        one, two = raw[22:102], raw[118:198]
        raw[22:102], raw[118:198] = two, one
    elif way == 3:  # another recipient in the place of one
        at = draw.choice((6, 102))
        raw[at : at + 16] = bytes.fromhex(stranger.id)
    elif way == 4:  # the head of one, the body of another
        raw = raw[:listed] + its[listed:]
    elif way == 5:  # the signature of another
        raw = raw[:-80] + its[-80:]
    elif way == 6:
        # signed by nobody, or sealed anew by a stranger in the author's name
        raw = raw[:-80] + bytes(80)
    elif way == 7:
        to = [key.public for key in keys]
        raw = bytearray(raw_of(crypto.seal("forged", HEAD, to, stranger)))
        raw[-80:-64] = bytes.fromhex(keys[0].id)
    else:
        raw = raw[: draw.randrange(len(raw))]
    return crypto._armour(bytes(raw))


@given(st.integers(0, 1_000_000))
@examples(10_000)
def test_no_forged_envelope_is_opened(keys, seed):
    draw, (author, reader, stranger) = random.Random(seed), keys
    to = [author.public, reader.public]
    sealed = crypto.seal(ENTRY.body, HEAD, to, author)
    other = crypto.seal("another", HEAD, to, author)
    changed = forged(draw, sealed, other, (author, reader), stranger)
    if changed != sealed:
        with pytest.raises((SealError, NoKey)) as caught:
            crypto.unseal(changed, HEAD, reader, author.public)
        assert len(str(caught.value)) > 20
        assert ENTRY.body not in str(caught.value)


@given(st.integers(0, 1_000_000))
@examples(10_000)
def test_no_forged_signature_is_accepted(keys, seed):
    draw, (author, reader, _) = random.Random(seed), keys
    good = crypto.sign(ENTRY.body, HEAD, author)
    signature, body, head, way = good, ENTRY.body, HEAD, draw.randrange(6)
    if way == 0:
        at = draw.randrange(len(good))
        letter = draw.choice("abcdefXYZ0123456789+/=.\n ")
        signature = good[:at] + letter + good[at + 1 :]
    elif way == 1:  # another's, in the author's name
        its = crypto.sign(body, head, reader).partition(".")[2]
        signature = f"{author.id}.{its}"
    elif way == 2:
        at = draw.randrange(len(body) + 1)
        body = body[:at] + draw.choice("xyz\n 7") + body[at + draw.randrange(2) :]
    elif way == 3:
        at = draw.randrange(len(head))
        head = head[:at] + draw.randbytes(1) + head[at + 1 :]
    elif way == 4:  # of another text by the same author
        signature = crypto.sign(f"another {seed}", head, author)
    else:
        signature = good[: draw.randrange(len(good))]
    if (signature, body, head) != (good, ENTRY.body, HEAD):
        with pytest.raises(SealError):
            crypto.verify(signature, body, head, author.public)


@pytest.mark.parametrize("left_out", ["_check_signature", "_about"])
def test_a_check_that_is_left_out_is_found_out(keys, monkeypatch, left_out):
    """Envelopes that a check alone keeps out: of a stranger, and of another header."""
    author, reader, stranger = keys
    by_other = crypto.seal("forged", HEAD, [reader.public], stranger)
    monkeypatch.setattr(crypto, left_out, lambda *args: b"")
    if left_out == "_check_signature":
        assert crypto.unseal(by_other, HEAD, reader, author.public) == "forged"
        return
    sealed = crypto.seal(ENTRY.body, HEAD, [reader.public], author)
    assert crypto._entry_key(crypto._parse(sealed), b"another header", reader)


def test_keys_as_text(keys):
    key = keys[0]
    private = crypto.private_text(key, "2026-02-01T01:00:00Z")
    assert crypto.private_from(private.encode()) == key
    public = crypto.public_text(key)
    assert crypto.public_from(public) == key.public
    assert crypto.from_fields(crypto.public_fields(key.public)) == key.public
    for wrong in ("", "{}", "[]", private.replace('"id": "', '"id": "0'), "null"):
        with pytest.raises(SealError):
            crypto.private_from(wrong.encode())
    for wrong in ("{}", public.replace("eng-a", "eng-b"), public.replace(": 1", ": 2")):
        with pytest.raises(SealError):
            crypto.public_from(wrong)


def test_what_cannot_be_sealed_is_said(keys):
    with pytest.raises(SealError, match="nobody"):
        crypto.seal("x", HEAD, [])
    with pytest.raises(SealError, match="700 KiB"):
        crypto.seal("x" * (crypto.MAX_PLAIN + 1), HEAD, [keys[0].public])
    large = crypto.seal("x" * crypto.MAX_PLAIN, HEAD, [keys[0].public])
    assert len(large) < 1 << 20
    for text in ("", crypto.BEGIN, f"{crypto.BEGIN}\n{crypto.END}", "plain"):
        assert not crypto.is_envelope(text)
