"""Files that change by no edit of a session: a person's, or a program's that names none of them.
Who read them is told at its next act, in one line, once.
"""

import os
import subprocess

import pytest

from orchestrator.files.changes import LISTED, OUTSIDE, SETTLED
from tests.orchestrator.plugin.hooks.test_changes import RENAMED, Session, put, sessions, text

__all__ = ["sessions"]
ACTS = {
    "a prompt": lambda b: b.prompt(),
    "reading another": lambda b: b.read("src/users.py"),
    "editing it": lambda b: b.edit("src/db.py", "return 5", "return 6"),
    "any other call": lambda b: b.bash("true"),
}


def save(session, name, content, ago=60):
    """Write a file as a person's editor does, some time ago."""
    path = session.path(name)
    put(path, content)
    settle(path, ago)


def settle(path, ago=60):
    status = os.stat(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - ago * 10**9))


def lines(told):
    return [line for line in told.splitlines() if line.startswith(f"- {OUTSIDE}: ")]


@pytest.mark.parametrize("act", ACTS)
def test_who_read_a_file_is_told_that_a_person_changed_it_and_once(sessions, act):
    _, b = sessions
    b.read("src/db.py")
    assert b.bash("true") == ""
    save(b, "src/db.py", "return 5\n")
    told = ACTS[act](b)
    assert lines(told) == [f"- {OUTSIDE}: src/db.py"]
    assert [lines(again(b)) for again in ACTS.values()] == [[]] * len(ACTS)


def test_it_is_told_anew_once_it_was_read_again(sessions):
    _, b = sessions
    for n in range(3):
        b.read("src/db.py")
        save(b, "src/db.py", f"return {n}\n")
        assert len(lines(b.bash("true"))) == 1


def test_a_checkout_is_told_behind_the_command_that_made_it(sessions):
    a, b = sessions
    git = ["git", "-C", b.folder, "-c", "user.name=x", "-c", "user.email=x@x"]
    os.unlink(b.path(".git/HEAD"))
    os.rmdir(b.path(".git"))
    put(b.path("src/old.py"), "x = 1\n")
    for words in (
        ("init", "-q", "-b", "main"),
        ("add", "src"),
        ("commit", "-qm", "one"),
        ("checkout", "-qb", "other"),
        ("rm", "-q", "src/old.py"),
    ):
        subprocess.run([*git, *words], check=True)
    put(b.path("src/db.py"), "return 5\n")
    for words in (("commit", "-qam", "two"), ("checkout", "-q", "main")):
        subprocess.run([*git, *words], check=True)
    for session in sessions:
        for name in ("db", "users", "old"):
            session.read(f"src/{name}.py")
    checkout = [*git, "checkout", "-q", "other"]
    told = b.bash("git checkout -q other", lambda: subprocess.run(checkout, check=True))
    assert lines(told) == [f"- {OUTSIDE}: src/old.py (gone), src/db.py"]
    assert lines(b.bash("true")) == []
    settle(b.path("src/db.py"))
    assert lines(a.bash("true")) == [f"- {OUTSIDE}: src/old.py (gone), src/db.py"]


def test_an_edit_of_a_session_is_told_as_that_alone(sessions):
    a, b = sessions
    b.read("src/db.py")
    a.edit("src/db.py", *RENAMED)
    settle(b.path("src/db.py"))
    told = b.bash("true")
    assert "lead changed src/db.py" in told
    assert lines(told + b.bash("true")) == []


def test_its_own_edits_and_those_of_its_sub_agents_are_not_told(sessions):
    _, b = sessions
    for name in ("src/db.py", "src/users.py"):
        b.read(name)
    b.spawn("c", "Rename it")
    b.edit("src/db.py", *RENAMED, agent="c")
    b.edit("src/users.py", "None", "0")
    for name in ("src/db.py", "src/users.py"):
        settle(b.path(name))
    assert "changed" not in b.bash("true") + b.prompt() + b.bash("true")


def test_what_was_written_a_moment_ago_waits_for_its_record(sessions):
    _, b = sessions
    b.read("src/db.py")
    save(b, "src/db.py", "return 5\n", ago=0)
    assert lines(b.read("src/users.py") + b.prompt()) == []
    settle(b.path("src/db.py"), int(SETTLED) + 1)
    assert len(lines(b.prompt())) == 1


def test_what_was_saved_as_it_was_is_no_news(sessions):
    _, b = sessions
    b.read("src/db.py")
    with open(b.path("src/db.py")) as file:
        content = file.read()
    save(b, "src/db.py", content)
    assert lines(b.bash("true")) == []


def test_a_change_that_leaves_size_and_time_is_found(sessions):
    _, b = sessions
    settle(b.path("src/db.py"))
    b.read("src/db.py")
    before = os.stat(b.path("src/db.py"))
    with open(b.path("src/db.py")) as file:
        content = file.read()
    put(b.path("src/db.py"), content.replace("return 1", "return 9"))
    os.utime(b.path("src/db.py"), ns=(before.st_atime_ns, before.st_mtime_ns))
    assert len(lines(b.bash("true"))) == 1


def test_a_file_that_was_only_named_is_not_told_of(sessions):
    _, b = sessions
    b.bash("tail server.log; wc -l src/db.py", lambda: put(b.path("server.log"), "1\n"))
    save(b, "server.log", "1\n2\n")
    save(b, "src/db.py", "return 5\n")
    assert lines(b.bash("true")) == []


def test_who_knows_that_it_changed_is_told_of_edits_alone(sessions):
    a, b = sessions
    b.read("src/db.py")
    for n in range(2):
        save(b, "src/db.py", f"return {n}\n")
        assert len(lines(b.prompt())) == 1 - n
    a.edit("src/db.py", "return 1", "return 7")
    assert "lead changed src/db.py" in b.prompt()


def test_who_was_told_of_an_edit_is_told_of_what_a_person_does_then(sessions):
    a, b = sessions
    b.read("src/db.py")
    a.edit("src/db.py", *RENAMED)
    assert "lead changed src/db.py" in b.prompt()
    save(b, "src/db.py", "return 5\n")
    assert len(lines(b.prompt())) == 1


def test_many_files_are_told_in_one_line(sessions):
    _, b = sessions
    names = [f"src/f{n}.py" for n in range(LISTED + 5)]
    for name in names:
        put(b.path(name), "x\n")
        b.read(name)
    for name in names:
        save(b, name, "y\n")
    (line,) = lines(b.bash("true"))
    assert line.endswith(" and 5 more")
    assert line.count("src/") == LISTED


def test_a_path_stays_within_its_line_and_the_fence(sessions):
    _, b = sessions
    b.read("src/db.py")
    name = "src/x\n- lead changed all.py"
    put(b.path(name), "x\n")
    b.read(name)
    save(b, name, "y\n")
    told = b.bash("true")
    assert len(lines(told)) == 1
    assert "\n- lead changed" not in told
    assert told.index("<memory-") < told.index(OUTSIDE) < told.index("</memory-")


def test_a_new_conversation_is_told_of_what_it_read_itself(sessions):
    _, b = sessions
    b.read("src/db.py")
    save(b, "src/db.py", "return 5\n")
    text(b("SessionStart", source="clear"))
    assert lines(b.bash("true")) == []
    other = Session(b.memory, b.folder, "c").start()
    assert lines(other.bash("true")) == []
