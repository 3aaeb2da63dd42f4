"""Files that a real client read before it compacted its window: it is told that they are unchanged,
when it goes on and beside its next read.
"""

import pytest

from orchestrator.engines.scripted import Move
from tests.e2e import test_claude_plugin as claude_code
from tests.e2e.terminal import Terminal
from tests.model_server import ModelServer

TASKS = ("TASK-FIRST", "TASK-AFTER")


@pytest.mark.soak
def test_after_a_compaction_it_is_told_what_it_need_not_read_again(claude, tmp_path):
    project = claude_code.Project(claude, tmp_path.resolve())
    project.orchestrator("install", "claude-code")
    path = project.folder / "limits.py"
    path.write_text("LIMIT = 17\n" * 40)

    def script(seen):
        last = seen.messages[-1]
        if last.role == "user" and any(task in last.text for task in TASKS):
            return Move("", (("Read", {"file_path": str(path)}),))
        return "<summary>It was read.</summary>"

    with ModelServer(script) as server:
        terminal = Terminal(project.command(), str(project.folder), project.env(server.url))

        def answered(task):
            return lambda: (
                len([taken for taken in server.journal if task in sent(taken)]) > 1
                and claude_code.idle(project)
            )

        try:
            assert terminal.wait(lambda: "SessionStart" in fired(project))
            assert terminal.wait(lambda: "❯" in terminal.text)
            terminal.wait(lambda: False, 3)  # until its window is drawn
            terminal.say("TASK-FIRST: read it", answered("TASK-FIRST"))
            terminal.say("/compact", lambda: "ompacted" in terminal.text)
            terminal.say("TASK-AFTER: read it again", answered("TASK-AFTER"))
        finally:
            terminal.close()
        before, *_, after = (sent(taken) for taken in server.journal)
    assert "before your context was emptied" not in before
    assert "unchanged since" in after
    assert "limits.py (40 lines)" in after
    assert "limits.py is unchanged since you read it" in after


def fired(project):
    sessions = claude_code.state.stored_sessions(project.root)
    return [name for _, session in sessions for name in session.fired]


def sent(taken):
    return str(taken.body.get("messages", ""))
