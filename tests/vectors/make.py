"""Writes the project's own vectors of sealed and signed entries anew, into sealed.json beside this.

python -m tests.vectors.make
"""

import json
import random
from pathlib import Path

from synapse import crypto
from synapse.model.entry import Entry

PATH = Path(__file__).with_name("sealed.json")


def key(owner, seed):
    draw = random.Random(seed)
    return crypto.PrivateKey(owner, draw.randbytes(32), draw.randbytes(32))


def entries():
    common = {"id": "", "author": "eng-a", "timestamp": "2026-02-01T01:00:00Z"}
    common |= {"namespace": "team/web", "priority": "important", "ttl": "7d"}
    yield Entry(
        **common, body="The door code is 4711.", scope="encrypted", addressees=("agent:eng-b",)
    )
    yield Entry(
        **common,
        body="Zwei Zeilen: ä\n> und 🎉",
        scope="private",
        addressees=("agent:eng-b", "team:web"),
        tags=("ops", "tür"),
        topic="Türcode",
        related=("syn-2026-02-01-001",),
        replaces=("syn-2026-02-01-002",),
        derived_from=("syn-2026-02-01-003",),
        evidence='a "quoted" text',
        when="run git push",
        claim="100",
    )
    yield Entry(**common, body="x" * 300, scope="encrypted", addressees=("agent:eng-b",))


def main():
    author = key("eng-a", 1)
    reader = key("eng-b", 2)
    third = key("eng-c", 3)
    keys = [
        {"owner": k.owner, "id": k.id, "seal": k.seal.hex(), "sign": k.sign.hex()}
        | {"public_seal": k.public.seal.hex(), "public_sign": k.public.sign.hex()}
        for k in (author, reader, third)
    ]
    sealed = []
    for number, entry in enumerate(entries()):
        head = crypto.header(entry)
        signer = author if number != 1 else None
        recipients = [author.public, reader.public]
        envelope = crypto.seal(entry.body, head, recipients, signer)
        shared = crypto.share(envelope, head, reader, third.public)
        sealed.append(
            {
                "header": head.decode(),
                "body": entry.body,
                "recipients": sorted(each.id for each in recipients),
                "signer": signer.id if signer else None,
                "envelope": envelope,
                "shared_with": third.id,
                "share": shared,
            }
        )
    signed = [
        {
            "header": crypto.header(entry._replace(scope="public")).decode(),
            "body": entry.body,
            "signature": crypto.sign(
                entry.body, crypto.header(entry._replace(scope="public")), author
            ),
        }
        for entry in entries()
    ]
    found = {"version": 1, "keys": keys, "sealed": sealed, "signed": signed}
    PATH.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
