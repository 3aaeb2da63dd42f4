"""What a conversation was told is counted kind by kind, and summed up from the records of runs."""

import os

from orchestrator.reports.notices import notices
from orchestrator.reports.rows import Source, find_runs
from orchestrator.runs.records import Runs
from tests.orchestrator.plugin.conftest import context, denied
from tests.orchestrator.plugin.hooks.test_changes import RENAMED, sessions, text

__all__ = ["sessions"]
LONG = "x = 1\n" * 400


def counted(memory):
    """Return the notices of sessions that have ended, by their kinds."""
    return {row.kind: row for row in notices(find_runs(Source(memory.store, memory.store.root)))}


def test_each_kind_of_notice_is_counted_with_what_it_took(sessions, memory):
    a, b = sessions
    moment = "Ask before a deploy."
    memory.as_agent("boss").append("Use tabs, by all means.", "decisions/web", priority="critical")
    memory.as_agent("boss").append(moment, "decisions/web", when="run deploy")
    given = [b("SessionStart", source="clear")]
    view = context(given[0]) + given[0]["more"]
    b.read("src/db.py")
    a.edit("src/db.py", *RENAMED)
    changed = b.bash("true")
    held, _ = b.before("Bash", {"command": "deploy"})
    prompt = b.prompt("Shall we use tabs?")
    b("SessionEnd")
    found = counted(memory)
    assert denied(held).count(moment) == 1
    for kind, told in (("view", view), ("change", changed), ("moment", denied(held))):
        assert (found[kind].times, found[kind].tokens) == (1, len(told) // 4), kind
        assert found[kind].named == found[kind].again == 0
    assert "prompt" not in found
    assert prompt == ""
    told = sum(row.tokens for row in found.values())
    (run,) = [run for run in Runs(memory.store).all() if run.fields.get("notices")]
    assert 0 < told <= run.fields["overhead"][3]


def test_files_that_need_not_be_read_again_stand_beside_those_that_are(sessions, memory):
    _, b = sessions
    for name in ("one", "two", "three"):
        with open(b.path(f"src/{name}.py"), "w") as file:
            file.write(LONG)
        b.read(f"src/{name}.py", result=LONG)
    with open(b.path("src/three.py"), "a") as file:
        file.write("y = 2\n")
    os.utime(b.path("src/three.py"), (0, 0))
    b("SessionStart", source="compact")
    beside = b.read("src/two.py", result=LONG[:1_000]) + b.read("src/three.py", result=LONG)
    assert beside.count("is unchanged since") == 1
    b.read("src/two.py", result=LONG)
    b("SessionEnd")
    row = counted(memory)["unchanged"]
    assert (row.times, row.named, row.again) == (2, 2 * len(LONG) // 4, 250)


def test_sessions_are_summed_up_and_those_that_run_are_left_out(sessions, memory):
    for session in sessions:
        session.read("src/db.py", result=LONG)
        session("SessionStart", source="compact")
        text(session.tool("Read", {"file_path": session.path("src/db.py")}, result=LONG)[0])
    assert counted(memory) == {}
    sessions[0]("SessionEnd")
    one = counted(memory)["unchanged"]
    sessions[1]("SessionEnd")
    both = counted(memory)["unchanged"]
    assert both == one._replace(**{name: 2 * getattr(one, name) for name in one._fields[1:]})
    assert one.again == len(LONG) // 4
