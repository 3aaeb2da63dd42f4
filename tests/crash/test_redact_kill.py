"""SIGKILL of `synapse redact` at its calls of the system: the text is there as before, or nobody
reads it any more and whoever opens the workspace next finishes it; nothing brings the text back.
"""

import pytest

import synapse
from synapse import cli
from synapse.log import redact as in_log
from synapse.model.agents import Agent
from tests.crash.killed import KILLED
from tests.crash.lives import begin
from tests.privacy.made import plain_in

SAID = "Blue Heron {0} is bought in the third quarter.\nThe word for it is Otter Quay {0}."
PROGRAM = KILLED + (
    "kill_at(sys.argv[1], 'open rename unlink link fsync fdatasync write pread ftruncate')\n"
    "from synapse import cli; sys.exit(cli.main(sys.argv[2:]))\n"
)
NEVER = 1 << 30  # calls
LONG, SHORT = 1, 13  # calls from one kill to the next


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "ws"
    with synapse.init(str(root)) as memory:
        for id in ("eng-a", "eng-b"):
            memory.register(Agent(id, "engineer", read=("*",), write=("*",)))
        for n in range(20):
            memory.as_agent("eng-a").append(f"It stays: {n}.", "decisions/y")
    return root


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


def command(root, id):
    return ["--root", str(root), "redact", id, "--reason", "under embargo"]


def killed_at(root, id, call):
    life = begin("-c", PROGRAM, call, *command(root, id))
    life.communicate(timeout=60)
    return life.returncode


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
    if cli.main(command(root, id)) != 0:
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


def survey(root, step):
    """Kill it at each so many-th call, until it comes to its end; return how often, and what was
    wrong.
    """
    before, wrong = {f"It stays: {n}." for n in range(20)}, []
    for n, call in enumerate(range(0, NEVER, step)):
        id, text = prepared(root, n)
        code = killed_at(root, id, call)
        assert code in (0, -9)
        wrong += [(call, *what) for what in what_is_wrong(root, id, text, before)]
        if code == 0:
            return n, wrong
    return None


def test_a_killed_redaction_is_finished_by_who_opens_it_next(root, capsys):
    kills, wrong = survey(root, SHORT)
    assert wrong == []
    assert kills > 5


@pytest.mark.soak
def test_a_redaction_killed_at_every_call(root, capsys):
    kills, wrong = survey(root, LONG)
    with capsys.disabled():
        print(f"\nkilled at {kills} calls")
    assert wrong == []
    assert kills > 100


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
    killed_at(root, id, 12)
    found = {what[0] for what in what_is_wrong(root, id, text, set())}
    assert "back" in found
