"""The files that a conversation read before its context was emptied: told whether they are
unchanged, when it goes on and beside its next read.
"""

import os

from orchestrator.files.changes import OUTSIDE
from orchestrator.plugin.facts import load
from orchestrator.plugin.hooks.reads import LISTED
from orchestrator.plugin.sessions import state
from orchestrator.runs.records import Runs
from synapse.model.entry import SECOND
from tests.orchestrator.plugin.conftest import context

LIST = "You read these files before your context was emptied"


def read(client, *names, agent=None):
    """Return what is told before each of these reads."""
    paths = [os.path.join(client.folder, name) for name in names]
    return [context(client.tool("Read", {"file_path": path}, agent)[0]) for path in paths]


def written(client, **texts):
    for name, text in texts.items():
        with open(os.path.join(client.folder, f"{name}.py"), "w") as file:
            file.write(text)


def compacted(client):
    given = client("SessionStart", source="compact")
    return context(given) + given["more"]


def test_unchanged_files_are_named_when_a_conversation_goes_on(client, memory):
    client("SessionStart", source="startup")
    written(client, a="one\n" * 1_240, b="two", c="three\n")
    assert read(client, "a.py", "b.py", "c.py", "a.py") == [""] * 4
    written(client, b="two, by a person")
    os.utime(os.path.join(client.folder, "b.py"), (0, 0))
    now = memory.store.clock()
    memory.store.clock = lambda: now + 41 * 60 * SECOND
    text = compacted(client)
    assert text.startswith(f"{LIST}, and they are unchanged since (41 min or less): ")
    assert "a.py (1,240 lines), c.py (1 line)." in text
    first, *others = read(client, "a.py", "b.py", "a.py")
    assert "a.py is unchanged since you read it 41 min ago." in first
    assert f"- {OUTSIDE}: b.py\n" in first
    assert others == ["", ""]
    assert LIST in compacted(client), "what is read again is forgotten again"


def test_what_a_conversation_edited_is_as_it_left_it(client):
    client("SessionStart", source="startup")
    written(client, a="one")
    read(client, "a.py")
    path = os.path.join(client.folder, "a.py")
    call = {"file_path": path, "old_string": "one", "new_string": "two"}
    _, id = client.before("Edit", call)
    written(client, a="two")
    client("PostToolUse", tool_name="Edit", tool_input=call, tool_use_id=id)
    compacted(client)
    (told,) = read(client, "a.py")
    assert told.startswith("a.py is unchanged since you read it ")


def test_what_it_noted_of_a_file_is_told_again(client, memory):
    client("SessionStart", source="startup")
    written(client, proxy_port="one")
    read(client, "proxy_port.py")
    note = "proxy_port.py: the firewall must be opened by hand."
    (run,) = Runs(memory.store).all(state="running")
    memory.as_agent("lead", run=run.id, epoch=run.epoch).append(note, "projects/shop")
    assert read(client, "proxy_port.py") == [""], "it knows what it wrote"
    view = compacted(client)
    (told,) = read(client, "proxy_port.py")
    assert told.startswith("proxy_port.py is unchanged since you read it ")
    assert note in view + told


def test_a_read_counts_in_the_form_that_the_client_gives_it(client):
    client("SessionStart", source="startup")
    written(client, a="one\n" * 400)
    path = os.path.join(client.folder, "a.py")
    file = {"filePath": path, "content": "one\n" * 400, "numLines": 400}
    for source in ("compact", "compact"):
        client.tool("Read", {"file_path": path}, result={"type": "text", "file": file})
        assert "a.py (400 lines)" in compacted(client), source
    kept = state.load(state.path_of(client.memory.store.root, "claude-code", "s1"))
    assert kept.workers[""].notices["unchanged"][3] == 1_600


def test_a_read_that_failed_is_none(client):
    client("SessionStart", source="startup")
    written(client, a="one")
    call = {"file_path": os.path.join(client.folder, "a.py")}
    _, id = client.before("Read", call)
    client("PostToolUseFailure", tool_name="Read", tool_input=call, tool_use_id=id, error="no")
    assert LIST not in compacted(client)
    assert read(client, "a.py") == [""]


def test_nothing_is_told_to_who_has_forgotten_nothing(client):
    client("SessionStart", source="startup")
    written(client, a="one")
    client.spawn("a1", "Read it")
    assert read(client, "a.py", "a.py", agent="a1") == ["", ""]
    assert read(client, "a.py", "a.py", "missing.py") == ["", "", ""]
    assert LIST not in context(client("SessionStart", source="resume"))
    client("SessionStart", source="clear")
    assert read(client, "a.py") == [""]


def test_the_list_is_short_and_fits_beside_the_view(client, memory):
    for n in range(60):
        memory.as_agent("boss").append(f"Rule {n}. " + "x " * 80, "decisions/web")
    client("SessionStart", source="startup")
    names = [f"{'long_' * 18}{n}" for n in range(3 * LISTED)]
    written(client, **dict.fromkeys(names, "text"))
    read(client, *(f"{name}.py" for name in names))
    given = client("SessionStart", source="compact")
    assert context(given).count(" (1 line)") == LISTED
    assert names[-1] in context(given), "the newest"
    cap = load("claude-code").events["SessionStart"].cap
    assert len(context(given)) <= cap
