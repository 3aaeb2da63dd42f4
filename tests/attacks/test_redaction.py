"""What the operator redacts is nowhere in the workspace afterwards: not in the journal, a file, the
index, a page of the archive, a view, a run or what was put aside; and `verify` accepts it.
"""

from pathlib import Path

import pytest

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.scripted import Move, Scripted
from synapse import cli
from synapse.errors import Forbidden, InvalidEntry, NotFound
from synapse.integrity.redaction import redact
from synapse.log.chain import blanked, decode
from synapse.mail.mailbox import Mail
from synapse.model.agents import Agent
from synapse.privacy.erase import erased, forms
from tests.privacy.made import plain_in

TEXT = (
    "Merger with Blue Heron is planned for the third quarter — «nobody» may know.\n"
    'The codename is "Otter\\Quay", the price 4.2 billion.\n'
)
LINES = TEXT.splitlines()


@pytest.fixture
def memory(tmp_path):
    with synapse.init(str(tmp_path / "ws")) as memory:
        for id in ("eng-a", "eng-b"):
            memory.register(Agent(id, "engineer", read=("*",), write=("*",)))
        yield memory


def left(memory):
    return {path for path, _ in plain_in(memory.store.root, LINES)}


def test_it_is_nowhere_afterwards(memory):
    me = memory.as_agent("eng-a")
    entry = me.append(TEXT, "decisions/merger", priority="critical")
    others = [me.append(f"Decision {n} stands.", "decisions/x") for n in range(20)]
    shown = []
    engine = Scripted(lambda seen: shown.append(seen) or Move(f"Fine.\n\n{LINES[0]}", []))
    with Supervisor(memory, engine=engine) as supervisor:
        supervisor.run(Task("Say what the memory says", "eng-b"))
    assert LINES[1] in str(shown[0].messages) or LINES[0] in str(shown[0].messages)
    root = Path(memory.store.root)
    assert cli.main(["--root", str(root), "view", "--agent", "eng-b", "--write"]) in (0, 64)
    (root / "quarantine/old.md").write_text(TEXT)
    (root / "views/eng-b.md").write_text(f"> {LINES[0]}\n> {LINES[1]}\n")
    memory.as_agent("eng-b").search("codename otter")
    assert len(left(memory)) > 4
    done = redact(memory.store, entry.id, "under embargo")
    assert "views/eng-b.md" in done.files
    assert any(name.endswith("output.md") for name in done.files)
    for id in done.repeated:
        redact(memory.store, id, "repeats it")
    assert done.records == ()
    assert left(memory) == set()
    assert memory.verify().problems == ()
    assert memory.as_agent("eng-b").get(entry.id).body == "[redacted]"
    assert memory.as_agent("eng-b").get(others[3].id).body == "Decision 3 stands."
    assert not list(memory.as_agent("eng-b").search("otter"))
    (act,) = [act for act in memory.audit() if act.fields.get("entry") == entry.id]
    assert (act.kind, act.by, act.fields["reason"]) == ("redact", "operator", "under embargo")
    assert memory.rebuild().problems == ()
    exported = "".join(memory.export())
    assert LINES[0] not in exported
    with synapse.init(str(root.parent / "copy")) as copy:
        copy.import_(exported.splitlines())
        assert copy.verify().ok
        assert copy.digest() == memory.digest()


def test_what_stays_is_named(memory):
    me = memory.as_agent("eng-a")
    entry = me.append(TEXT, "decisions/x", topic="merger")
    merged = me.append("See there.", "decisions/x", derived_from=[entry.id])
    repeated = me.append(f"As he said: {LINES[0]}", "decisions/x")
    me.archive([merged.id], reason=LINES[1])
    done = redact(memory.store, entry.id, "under embargo")
    assert done.repeated == (merged.id, repeated.id)
    assert done.records == (memory.store.log.last() - 1,)
    assert done.stays == ("topic",)


def test_a_run_whose_summary_repeats_it_is_named(memory):
    entry = memory.as_agent("eng-a").append(TEXT, "decisions/x")
    engine = Scripted(lambda seen: Move(LINES[0], []))
    with Supervisor(memory, engine=engine) as supervisor:
        supervisor.run(Task("Say what the memory says", "eng-b"))
    done = redact(memory.store, entry.id, "under embargo")
    named = [memory.store.log.at(seq).kind for seq in done.records]
    assert named == ["run"]
    for id in done.repeated:
        redact(memory.store, id, "repeats it")
    assert {path.rpartition("/")[2] for path in left(memory)} <= {
        "000000000001.jsonl",
        "brain.db",
        "brain.db-wal",
    }


def test_one_that_was_filed_away(memory):
    me = memory.as_agent("eng-a")
    entries = [me.append(f"{TEXT}{n}", "decisions/x") for n in range(3)]
    me.archive([entry.id for entry in entries])
    for entry in entries:
        redact(memory.store, entry.id, "under embargo")
    assert left(memory) == set()
    assert memory.verify().problems == ()
    me.restore([entries[0].id])
    assert memory.verify().problems == ()


def test_a_message(memory):
    mail = Mail(memory.as_agent("eng-a"))
    message = mail.send("eng-b", TEXT)
    redact(memory.store, message.id, "under embargo")
    assert left(memory) == set()
    assert memory.verify().problems == ()


def test_who_has_it_open_goes_on(memory):
    me = memory.as_agent("eng-a")
    entry = me.append(TEXT, "decisions/x")
    with synapse.open(memory.store.root) as other:
        seen = other.as_agent("eng-b")
        assert seen.get(entry.id).body == TEXT.rstrip()
        redact(memory.store, entry.id, "under embargo")
        assert seen.get(entry.id).body == "[redacted]"
        new = seen.append("after it", "decisions/x")
    assert me.get(new.id).body == "after it"
    assert memory.verify().problems == ()
    assert left(memory) == set()


def test_a_text_that_nobody_redacted_is_missed(memory):
    entry = memory.as_agent("eng-a").append(TEXT, "decisions/x")
    path = Path(memory.store.root, "journal/000000000001.jsonl")
    memory.close()
    lines = path.read_bytes().splitlines(keepends=True)
    assert decode(lines[-1]).id == entry.id
    path.write_bytes(b"".join([*lines[:-1], blanked(lines[-1])]))
    with synapse.open(memory.store.root) as again:
        (problem, *_) = again.verify().problems
        assert "nobody redacted it" in problem.what


def test_one_that_is_only_recorded_is_missed(memory):
    entry = memory.as_agent("eng-a").append(TEXT, "decisions/x")
    sha = memory.store.commit.get(entry.id).sha
    memory.store.commit.act("redact", "operator", entry=entry.id, sha=sha, reason="x")
    assert "redact it again" in str(memory.verify().problems)
    redact(memory.store, entry.id, "under embargo")
    assert memory.verify().ok


@pytest.mark.parametrize("name", ["SYNAPSE_RUN", "SYNAPSE_AGENT"])
def test_it_is_a_persons_and_needs_a_reason(memory, monkeypatch, name):
    entry = memory.as_agent("eng-a").append(TEXT, "decisions/x")
    with pytest.raises(InvalidEntry, match="why"):
        redact(memory.store, entry.id, " ")
    with pytest.raises(NotFound):
        redact(memory.store, "syn-2020-01-01-001", "x")
    monkeypatch.setenv(name, "eng-a")
    with pytest.raises(Forbidden):
        redact(memory.store, entry.id, "x")


def test_in_memory():
    with synapse.open("memory:") as memory:
        memory.register(Agent("eng-a", "engineer", read=("*",), write=("*",)))
        entry = memory.as_agent("eng-a").append(TEXT, "decisions/x")
        redact(memory.store, entry.id, "under embargo")
        assert memory.as_agent("eng-a").get(entry.id).body == "[redacted]"
        assert LINES[0] not in "".join(memory.export())


def test_erasing_keeps_the_length_and_the_form():
    needles = forms(TEXT)
    text = f'{{"a": "x {LINES[0]} y", "b": "é{LINES[0][3:]}"}}'.encode()
    made = erased(text, needles)
    assert len(made) == len(text)
    assert b"Blue Heron is planned" not in made
    made.decode()
    assert erased(b"nothing of it", needles) == b"nothing of it"
