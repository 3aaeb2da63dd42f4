"""A recorded session is replayed through the hooks, and a policy that errs is found by the account
of the recording.
"""

import json

import pytest

from bench import replaying
from orchestrator.files.changes import Changes
from orchestrator.files.seen import Seen
from orchestrator.plugin.hooks import reads
from orchestrator.plugin.sessions.state import Worker

ROOT = "/srv/shop"
OLD, NEW = "def fetch_all(c):\n    pass\n", "def fetch_page(c):\n    pass\n"


class Transcript:
    """Writes what Claude Code writes of a session."""

    def __init__(self, session):
        self.session, self.rows, self.calls = session, [], 0

    def row(self, minute, type, content, **fields):
        stamp = f"2026-01-05T10:{minute:02}:{len(self.rows) % 60:02}.000Z"
        common = {"type": type, "timestamp": stamp, "cwd": ROOT, "sessionId": self.session}
        self.rows.append(common | {"message": {"role": type, "content": content}} | fields)

    def prompt(self, minute, text):
        self.row(minute, "user", text)

    def call(self, minute, tool, arguments, result, text="ok"):
        self.calls += 1
        id = f"{self.session}-{self.calls}"
        use = {"type": "tool_use", "id": id, "name": tool, "input": arguments}
        self.row(minute, "assistant", [use])
        given = {"type": "tool_result", "tool_use_id": id, "content": text}
        self.row(minute, "user", [given], toolUseResult=result)

    def read(self, minute, name, text):
        lines = text.count("\n") + 1
        file = {"content": text, "startLine": 1, "numLines": lines, "totalLines": lines}
        result = {"type": "text", "file": {"filePath": f"{ROOT}/{name}", **file}}
        self.call(minute, "Read", {"file_path": f"{ROOT}/{name}"}, result, text)

    def edit(self, minute, name, before, old, new):
        arguments = {"file_path": f"{ROOT}/{name}", "old_string": old, "new_string": new}
        self.call(minute, "Edit", arguments, {"originalFile": before})

    def bash(self, minute, command):
        self.call(minute, "Bash", {"command": command}, {})

    def compact(self, minute):
        self.row(minute, "system", "", subtype="compact_boundary")

    def write(self, folder):
        text = "".join(json.dumps(row) + "\n" for row in self.rows)
        (folder / f"{self.session}.jsonl").write_text(text)


@pytest.fixture
def recording(tmp_path):
    """Two sessions: one renames what the other uses, a person saves a file in between, and the
    other goes on after a compaction.
    """
    one, other = Transcript("one"), Transcript("other")
    one.prompt(0, "Use it")
    for name, text in (("db.py", OLD), ("same.py", "x = 1\n"), ("saved.py", "y = 1\n")):
        one.read(1, name, text)
    other.prompt(2, "Rename it")
    other.read(2, "db.py", OLD)
    other.edit(3, "db.py", OLD, "fetch_all", "fetch_page")
    one.bash(4, "make test")
    one.read(5, "saved.py", "y = 2\n")
    one.compact(6)
    one.read(7, "same.py", "x = 1\n")
    one.read(8, "saved.py", "y = 3\n")
    one.edit(9, "db.py", NEW, "pass", "return c")
    for transcript in (one, other):
        transcript.write(tmp_path)
    return tmp_path


def counts(capsys, folder):
    assert replaying.main([str(folder), "--wrong"]) == 0
    rows = (line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    return {row[1]: int(row[0]) for row in rows if row[0].isdigit()}


def test_what_a_session_is_told_stands_beside_what_was_recorded(recording, capsys):
    found = counts(capsys, recording)
    assert {name: number for name, number in found.items() if "tokens" not in name} == {
        "calls": 10,
        "reads": 7,
        "compactions": 1,
        "edit of another": 1,
        "by no edit": 2,
        "needed: change": 2,
        "not needed: change": 1,
        "needed: unchanged": 2,
        "unchanged, named": 1,
        "unchanged, beside": 1,
        "read again: unchanged, named": 1,
        "read again: changed": 1,
    }


ERRORS = {
    "all are unchanged": (reads, "_is_same", lambda seen, found: True, "FALSE unchanged"),
    "nobody's change is told": (Changes, "_outside", lambda self, *_: [], "missed"),
    "no edit is told": (Changes, "_tell", lambda self, *_: [], "missed"),
    "how a file looked is forgotten": (
        Worker,
        "see",
        lambda worker, key, *_: worker.files.update({key: Seen("x", "", 1, False, True)}),
        "FALSE by no edit",
    ),
}


@pytest.mark.parametrize("error", ERRORS)
def test_a_policy_that_errs_is_found(recording, capsys, monkeypatch, error):
    owner, name, wrong, told = ERRORS[error]
    monkeypatch.setattr(owner, name, wrong)
    assert any(key.startswith(told) for key in counts(capsys, recording))


def test_a_line_that_was_cut_off_ends_the_recording(recording, capsys):
    before = counts(capsys, recording)
    with (recording / "one.jsonl").open("a") as file:
        file.write('{"type": "user", "mess')
    assert counts(capsys, recording) == before
