"""What the plugin would have told recorded sessions, judged by what then happened: planted, with
answers computed by hand.
"""

import os

import pytest

from orchestrator.audit import policy, sources
from orchestrator.audit.figures import audit
from orchestrator.files.changes import Changes
from orchestrator.plugin.facts import load
from orchestrator.plugin.hooks import reads
from orchestrator.sharing.findings import Findings

FILE = "".join(f"line {n:>14}\n" for n in range(200))  # a thousand tokens
URL = {"url": "https://example.org/a", "prompt": "what is there"}
LISTED = load("claude-code").raw["adds"]["listing"]


@pytest.fixture
def played(tmp_path):
    def played(*transcripts):
        for one in transcripts:
            one.write(tmp_path / "sessions")
        folder = tmp_path / "played" / str(len(os.listdir(tmp_path / "played")))
        return policy.play(sources.find([str(tmp_path / "sessions")]), str(folder))[0]

    (tmp_path / "played").mkdir()

    return played


def read_again(transcript, edits=False, text=FILE):
    """A session that reads a file once more after its context was emptied."""
    one = transcript("one")
    one.prompt("Look at it")
    one.read("a.py", FILE, fresh=10_000)
    one.turn(fresh=10_000)
    one.compact()
    one.prompt("Go on")
    one.read("a.py", text, fresh=10_000)
    if edits:
        one.edit("a.py", "line", "row")
    for _ in range(4):
        one.turn(fresh=10_000)
    return one


def test_a_file_that_need_not_be_read_again_is_spared_at_each_turn(transcript, played):
    found = played(read_again(transcript))
    assert (found.sessions, found.calls, found.paid) == (1, 2, 70_000)
    assert (found.right, found.wrong, found.missed, found.needed, found.unneeded) == (2, 0, 0, 2, 0)
    assert found.spared == len(FILE) // 4 * 4
    assert found.added > 7 * LISTED
    assert found.net.value == (found.spared - found.added) / found.paid


def test_what_is_then_edited_or_has_changed_is_not_spared(transcript, played):
    edited = played(read_again(transcript, edits=True))
    assert (edited.right, edited.wrong, edited.spared) == (2, 0, 0)


def test_of_a_file_that_changed_nothing_is_said_to_be_unchanged(transcript, played):
    changed = played(read_again(transcript, text=f"{FILE}one more\n"))
    assert (changed.right, changed.wrong, changed.spared) == (1, 0, 0)


@pytest.mark.parametrize(
    ("owner", "name", "answer", "where"),
    [
        (reads, "_is_same", lambda seen, found: True, "wrong"),
        (Changes, "_outside", lambda self, *_: [], "missed"),
    ],
)
def test_a_policy_that_errs_is_found(transcript, played, monkeypatch, owner, name, answer, where):
    monkeypatch.setattr(owner, name, answer)
    one = read_again(transcript, text=f"{FILE}one more\n")
    assert getattr(played(one), where) > 0


def fetched_twice(transcript, second):
    """A session and its sub-agent that fetch one address minutes apart."""
    main, agent = transcript("one"), transcript("one", agent="abc", begin=5)
    main.prompt("Look")
    main.call("WebFetch", URL, "the retry limit is 5 " * 20, fresh=10_000)
    main.minute = 20
    main.turn(fresh=10_000)
    agent.prompt("Look there too")
    agent.call("WebFetch", URL, second, fresh=10_000)
    agent.turn(fresh=10_000)
    return main, agent


def test_what_another_got_is_compared_with_what_the_call_gave(transcript, played):
    same = played(*fetched_twice(transcript, "the retry limit is 5 " * 20))
    assert (same.right, same.wrong, same.spared) == (1, 0, 105)
    other = played(*fetched_twice(transcript, "not found"))
    assert (other.right, other.wrong, other.spared) == (0, 1, 0)


def test_a_result_that_is_given_too_late_is_not_counted(transcript, played, monkeypatch):
    monkeypatch.setattr(Findings, "latest", lambda self, *_: None)
    none = played(*fetched_twice(transcript, "the retry limit is 5 " * 20))
    assert (none.right, none.wrong, none.spared) == (0, 0, 0)


def test_the_process_of_its_own_says_the_same_and_leaves_nothing(
    transcript, played, tmp_path, monkeypatch
):
    expected = played(read_again(transcript))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SYNAPSE_ROOT", str(tmp_path / "workspace"))
    monkeypatch.delenv("SYNAPSE_HOME")
    monkeypatch.setattr(policy, "MEMORY", str(tmp_path / "memory"))
    (tmp_path / "memory").mkdir()
    with policy.playing(sources.find([str(tmp_path / "sessions")])) as answer:
        assert answer() == expected
    assert {path.name for path in tmp_path.iterdir()} == {"sessions", "played", "memory"}
    assert list((tmp_path / "memory").iterdir()) == []


def test_no_path_of_a_recording_leads_out_of_the_folder(transcript, played, tmp_path):
    one = transcript("one", cwd=f"{'/..' * 40}/srv/../../shop")
    for name in ("../../../../out.py", "\0.py", "x" * 300, "a.py/../../b.py", "a/" * 900):
        one.read(name, FILE, fresh=100)
    one.call("Read", {"file_path": "../../relative.py"}, FILE)
    one.call("Write", {"file_path": f"{'/..' * 40}{tmp_path}/out.py", "content": "x"}, "ok")
    played(one)
    assert {path.name for path in tmp_path.iterdir()} == {"sessions", "played"}


def test_the_newest_sessions_are_chosen_with_their_sub_agents(tmp_path):
    for number in range(4):
        for name in (f"{number}.jsonl", f"{number}/subagents/agent-{number}.jsonl"):
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x" * 100)
            os.utime(path, (number, number))
    files = sources.find([str(tmp_path)])
    chosen = policy.choose(files, 400)
    assert [os.path.basename(file.path) for file in chosen] == [
        "agent-2.jsonl", "agent-3.jsonl", "2.jsonl", "3.jsonl"
    ]  # fmt: skip
    assert len(policy.choose(files, 1)) == 2  # one session at least


def test_the_sentence_of_nothing_to_replay(tmp_path):
    assert policy.play([], str(tmp_path))[0].sentence() == "No session of Claude Code to replay."
    assert audit([]).policy is None
