"""SIGKILL of `synapse redact` at its calls of the system: the text is there as before, or nobody
reads it any more and whoever opens the workspace next finishes it; nothing brings the text back.
"""

import pytest

import synapse
from synapse import cli
from synapse.log import redact as in_log
from tests.crash import kill
from tests.crash.conftest import STAYS
from tests.privacy.made import plain_in

SAID = "Blue Heron {0} is bought in the third quarter.\nThe word for it is Otter Quay {0}."
CALLS = f"{kill.CALLS} pread"


def redact(root, id):
    return cli.main(["--root", root, "redact", id, "--reason", "under embargo"])


def prepared(root, n):
    """Write what is to be redacted, into a view and a run too; return its id and its text."""
    text = SAID.format(f"no. {n:04d}")
    with synapse.open(str(root)) as memory:
        me = memory.as_agent("eng-a")
        id = me.append(text, "decisions/x").id
        if n % 2:
            me.archive([id])
        me.search("heron")
    for name in ("views/eng-b.md", "runs/run-1/output.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"> {text}\n")
    return id, text


def what_is_wrong(root, id, text, before):
    """What is wrong after a kill, once it was opened, and once the command was given again."""
    with synapse.open(str(root)) as memory:
        body = memory.as_agent("eng-b").get(id).body
        acts = [r for r in memory.store.log.since(0) if r.kind == "redact"]
        begun = any(act.fields["entry"] == id for act in acts)
        report = memory.verify()
        if not begun and (body != text or not report.ok):
            yield "changed before it was begun", body, report.problems
        if begun and body != "[redacted]":
            yield "shown", body
        if not report.ok:
            yield "verify", report.problems
    if begun and (found := plain_in(root, [text])):
        yield "left", sorted(found)
    if redact(str(root), id) != 0:
        yield "stuck", id
    with synapse.open(str(root)) as memory:
        memory.as_agent("eng-b").read()
        memory.store.refresh()
        if found := plain_in(root, [text]):
            yield "back", sorted(found)
        if memory.as_agent("eng-b").get(id).body != "[redacted]":
            yield "back", memory.as_agent("eng-b").get(id).body
        if not (report := memory.verify()).ok:
            yield "verify", report.problems
        bodies = {entry.body for entry in memory.as_agent("eng-b").read(limit=None)}
        if not before <= bodies:
            yield "lost", before - bodies


def wrong_after_kills(root, most):
    """Return at how many calls it was killed, and what was wrong afterwards."""
    texts, wrong, count = {}, [], 0

    def fresh():
        id, text = prepared(root, len(texts))
        texts[id] = text
        return root, id

    for at, (_, id) in kill.kills(redact, fresh, most, CALLS):
        count += 1
        wrong += [(at, *what) for what in what_is_wrong(root, id, texts[id], STAYS)]
    return count, wrong


@pytest.mark.parametrize("most", kill.POINTS)
def test_a_killed_redaction_is_finished_by_who_opens_it_next(root, capsys, most):
    count, wrong = wrong_after_kills(root, most)
    assert wrong == []
    assert count > 0.8 * most


def test_drafts_that_killed_writers_left_go_too(root, capsys):
    id, text = prepared(root, 1)
    (page,) = (root / "archive").glob("*.md")
    live = root / "entries/decisions/x"
    for draft in (
        page.with_name(f".{page.name}.4711.abcdef"),
        live / f".{id}.md.4711.abcdef",
        root / ".index/journal-4711",
    ):
        draft.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(text)
    assert len(plain_in(root, [text])) > 5
    assert list(what_is_wrong(root, id, text, set())) == []


@pytest.mark.parametrize("left_out", ["_without", "blank"])
def test_a_redaction_that_forgets_a_place_is_found_out(root, capsys, monkeypatch, left_out):
    monkeypatch.setattr(in_log, left_out, lambda *args: None)
    id, text = prepared(root, 1)
    assert kill.killed(redact, root, id, at=13, names=CALLS)
    found = {what[0] for what in what_is_wrong(root, id, text, set())}
    assert "back" in found
