"""The act of `synapse redact` for the checks of power cuts: what it is done to, and what has to be
left of it.
"""

from __future__ import annotations

import os

import synapse
from synapse.errors import SynapseError
from synapse.integrity.redaction import redact
from synapse.mail.mailbox import Mail
from tests.crash.power_check import Act, body, entries, in_what_follows, standing, workspace
from tests.privacy.made import plain_in

SAID = (
    "Blue Heron will be bought in the third quarter.",
    "Nobody outside of this room knows what Otter Quay means.",
    "Two hundred people of Harbour Street go in spring.",
    "Our largest client asked for the price of leaving.",
    "The audit found four invoices without an order.",
)
WHY = "under embargo"
PLACES = ("decisions/merger", "api/endpoints", "api/endpoints", "status/x")


def told_to_all(root):
    """A workspace with texts to redact: entries, one of them filed away, and a message; in a view,
    a run and a drop that was put aside, too.
    """
    workspace(root)
    with synapse.open(str(root / "memory")) as memory:
        me = memory.as_agent("eng")
        ids = [me.append(text, place).id for text, place in zip(SAID, PLACES, strict=False)]
        memory.as_agent("lead").archive(ids[1:3])
        Mail(me).send("lead", SAID[-1], subject="soon")
        me.search("quarter")
    for name in ("views/eng.md", "runs/run-1/output.md", "quarantine/old.md"):
        path = root / "memory" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(f"> {text}" for text in SAID))


def asked(memory):
    """Return what is to be redacted and is there: the texts by their ids."""
    held = [(id, body(text).strip()) for id, text in entries(memory) if text]
    return {id: text for id, text in held if text in SAID}


def redacted(root, acknowledge):
    with synapse.open(str(root / "memory")) as memory:
        for number, (id, text) in enumerate(asked(memory).items()):
            redact(memory.store, id, WHY)
            acknowledge(("redacted", id, text))
            entry = memory.as_agent("eng").append(f"after {number}", "status/x")
            acknowledge(("entry", entry.id, f"after {number}"))


def findings(root, told, whole, inodes):
    """What is wrong after a cut: a text that was redacted is there, or another one is not."""
    try:
        with synapse.open(str(root / "memory")) as memory:
            memory.as_agent("lead").read()
            done = [text for kind, _, text in told if kind == "redacted"]
            yield from back(memory, done, "after it was opened")
            finish(memory)
            report = memory.verify()
            if not report.ok:
                yield "verify", report.problems
            for id in asked(memory):
                redact(memory.store, id, WHY)
            yield from back(memory, SAID, "after the others were redacted")
            held = dict(entries(memory))
            for kind, id, text in told:
                if kind == "entry" and body(held.get(id) or "").strip() != text:
                    yield "lost", id
            yield from in_what_follows(memory, memory.verify())
    except (SynapseError, OSError) as error:
        yield "stuck", repr(error)


def back(memory, texts, when):
    """Yield what was redacted and is there, in a file or where it is asked for."""
    for path, text in sorted(plain_in(memory.store.root, texts)):
        yield "back", (when, os.path.relpath(path, memory.store.root), text)
    for entry in memory.as_agent("operator").read(limit=None):
        if entry.body in texts:
            yield "back", (when, entry.id)


def finish(memory):
    """Do the last redaction again: it may have been begun."""
    acts = [r.fields["entry"] for r in memory.store.log.since(0) if r.kind == "redact"]
    if acts:
        redact(memory.store, acts[-1], WHY)


REDACT = Act(told_to_all, redacted, findings, standing)
