"""Every verb of the shell prints what `authority.visible` allows, and nothing else."""

import json
import os
import signal

import pytest

from synapse import cli
from synapse.cli.frame.parse import options_of
from synapse.cli.verbs import ALIASES, OPERATORS, VERBS
from synapse.search import semantic
from tests.gate.world import (
    GHOST,
    GHOST_MESSAGE,
    MAIL,
    NONE,
    READERS,
    WHOLE,
    samples,
    threads_of,
    world_at,
)
from tests.trusted import trust

# Command lines of each verb; {me}, {id} and {word} are filled in. An id or a word of each state,
# seen or not.
ID_ACT = ("--from {me} --json {id}",)
SHELL = {
    "read": (
        "--agent {me} --json",
        "--agent {me} --json --limit 0",
        "--agent {me} --limit 0 --markdown",
        "--agent {me} --json --limit 0 --since 24h --priority critical,important --namespace api/*",
        "--agent {me} --json --author eng-a --tag tagged",
        "--agent {me} --json --archived",
        "--agent {me} --mark",
        "--agent {me} --unread",
        "--agent {me} --unread --budget 300",
        "--agent {me} --unread --json --limit 0",
        "--agent {me} --json {id}",
        "--agent {me} --markdown {id}",
    ),
    "search": (
        "--agent {me} --json --limit 500 common",
        "--agent {me} common",
        "--agent {me} --json --archived --namespace api/* common",
        (
            "--agent {me} --json --kind entry,message --author eng-a --priority critical"
            " --tag tagged common"
        ),
        "--agent {me} --since 2d --until today common",
        "--agent {me} --when yesterday common",
        "--agent {me} --json {word}",
        "--agent {me} --json --limit 500 --mode meaning common",
        "--agent {me} --mode both common",
    ),
    "view": (
        "{me} --json",
        "{me}",
        "--agent {me} --budget 500",
        "--agent {me} --department backend --json",
        "{me} --as-of 3h --json",
        "{me} --as-of 3h --department backend",
        "{me} --write",
    ),
    "unread": ("--agent {me} --json",),
    "watch": (
        "--agent {me} --json --since 0 --timeout 0",
        "--agent {me} --since 0 --critical --timeout 0 --count 9999",
    ),
    "log": (
        "--agent {me} --json --limit 0",
        "--agent {me} --since 24h --limit 0",
        "--agent {me} --json --before 40",
    ),
    "approve": ("--from {me} --json", "--from {me}", *ID_ACT),
    "reject": ID_ACT,
    "resolve": ID_ACT,
    "vouch": ID_ACT,
    "archive": ID_ACT,
    "restore": ID_ACT,
    "taint": ID_ACT,
    "untaint": ID_ACT,
    "forget": ID_ACT,
    "link": ("--from {me} --json {id} {id}",),
    "remember": ("--from {me} --json --cites {id} text",),
    "atom": ("--from {me} --json --cites {id} who does that",),
    "why": ("--agent {me} --json {id}", "--agent {me} {id}"),
    "ack": (*ID_ACT, "--from {me} --json --body yes {id}", "--from {me} --json --react yes {id}"),
    "send": ("--from {me} --json --reply-to {id} text", "--from {me} --json --edit {id} text"),
    "inbox": ("--agent {me} --json --limit 0", "--agent {me}", "--agent {me} --mark"),
    "poll": ("--agent {me} --json",),
    "threads": ("--agent {me} --json --status all --limit 99", "--agent {me} --tag none"),
    "thread": ("--agent {me} --json {thread}", "--agent {me} --limit 3 {thread}"),
    "recent": (
        "--agent {me} --json --limit 0",
        "--agent {me} --since 24h --kind entry,message",
        "--agent {me} --json --limit 9 --before 4000000000000000.x",
    ),
    "what-did": (
        "--agent {me} --json --limit 0 eng-a",
        "--agent {me} --since 24h --before 40 eng-a",
    ),
    "timeline": (
        "--agent {me} --json --limit 0 x",
        "--agent {me} --since 24h --before 4000000000000000.x x",
    ),
    "write": ("--from {me} --json --namespace api/endpoints --supersedes {id} text",),
    "undo": (
        "--from {me} --json --plan last",
        *(f"--from {{me}} --plan {number}" for number in (1, 12, 30, 60, 90, 9999)),
    ),
    **dict.fromkeys(
        "audit backup defrag embed export import checkpoint init merge migrate register revoke trust"
        " serve dashboard token webhooks".split(),
        WHOLE,
    ),
    **dict.fromkeys("repair redact reputation stats doctor".split(), WHOLE),
    **dict.fromkeys(("agents", "completion", "keys", "rebuild", "verify", "where"), NONE),
    "mcp": "serves: what it answers is walked below",
}
REVIEWING = ("approve", "log", "read")
WRITERS = (
    "approve",
    "reject",
    "resolve",
    "vouch",
    "archive",
    "restore",
    "ack",
    "forget",
    "link",
    "remember",
    "atom",
    "write",
    "send",
    "thread",
    "undo",
    "taint",
    "untaint",
)


def unasked():
    """Options of reading verbs that no command line of the table uses."""
    return {
        f"{verb} {option.option_strings[0]}"
        for verb, lines in SHELL.items()
        if isinstance(lines, tuple) and verb not in WRITERS
        for option in options_of(VERBS[verb]).declared()
        if option.option_strings and option.dest not in ("root", "debug")
        if not any(name in line for name in option.option_strings for line in lines)
    }


@pytest.fixture(scope="module")
def disk(tmp_path_factory, embedding_server):
    """The world in files."""
    root = tmp_path_factory.mktemp("gate") / "shared-memory"
    found = world_at(root)
    embedding_server.reset()
    with (root / "synapse.yaml").open("a") as file:
        file.write(f"semantic: {{embedder: ollama, url: '{embedding_server.url}', search: off}}\n")
    trust(root)
    found.mem.store.refresh(whole=True)
    semantic.embed(found.mem.store)
    yield found
    found.mem.close()


@pytest.fixture
def run(disk, capsys, monkeypatch):
    for name in [name for name in os.environ if name.startswith("SYNAPSE_")]:
        monkeypatch.delenv(name)
    before = signal.getsignal(signal.SIGTERM)

    def run(verb, line, prog=None, **filled):
        capsys.readouterr()
        words = [word.format(**filled) for word in line.split()]
        cli.main([verb, "--root", disk.mem.store.root, *words], prog=prog)
        return "".join(capsys.readouterr())

    yield run
    assert signal.getsignal(signal.SIGTERM) == before


PART = 3  # of the hidden entries, an agent asks for one in so many in every run


def hidden(world, reader, line, whole):
    """Return entries that a line asks for: of each state one that is hidden. In every run each
    agent asks for a part of them, by turns, and all agents together for all.
    """
    found = samples(world, reader)
    start = READERS.index(reader) + len(line)
    return found if whole else found[start % PART :: PART]


@pytest.mark.parametrize(
    "whole", [False, pytest.param(True, marks=pytest.mark.soak)], ids=("part", "whole")
)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "verb", [verb for verb, lines in SHELL.items() if isinstance(lines, tuple)]
)
def test_every_verb_passes_the_gate(disk, run, verb, reader, whole):
    if verb in (*WRITERS, "unread", "inbox", "poll") and verb != "thread" and reader == "operator":
        return
    for line in SHELL[verb]:
        for id in threads_of(disk) if "{thread}" in line else ():
            assert disk.leaks(reader, run(verb, line, me=reader, thread=id)) == [], line
        if "{thread}" in line:
            continue
        if "{id}" in line:
            missing = {
                ghost: run(verb, line, me=reader, id=ghost) for ghost in (GHOST, GHOST_MESSAGE)
            }
            for known in hidden(disk, reader, line, whole):
                ghost = GHOST_MESSAGE if known.state in MAIL else GHOST
                assert run(verb, line, me=reader, id=known.id) == missing[ghost].replace(
                    ghost, known.id
                ), line
        elif "{word}" in line:
            for known in hidden(disk, reader, line, whole):
                assert json.loads(run(verb, line, me=reader, word=known.word))["entries"] == []
        else:
            assert disk.leaks(reader, run(verb, line, me=reader), verb in REVIEWING) == [], line
    views = os.path.join(disk.mem.store.root, "views", f"{reader}.md")
    if verb == "view" and reader != "operator":
        with open(views, encoding="utf-8") as file:
            assert disk.leaks(reader, file.read()) == []


@pytest.mark.parametrize("reader", READERS)
def test_the_shell_shows_what_is_visible(disk, run, reader):
    assert {
        each["id"] for each in entries(run("read", "--agent {me} --json --limit 0", me=reader))
    } == disk.live(reader)
    found = run("search", "--agent {me} --json --limit 500 common", me=reader)
    assert {each["id"] for each in entries(found)} == disk.live(reader)
    archived = run("read", "--agent {me} --json --limit 0 --archived", me=reader)
    assert {each["id"] for each in entries(archived)} == disk.live(reader, states={"archived"})
    text = run("read", "--limit 0 --markdown --agent {me}", prog="synapse-read", me=reader)
    assert {known.id for known in disk.known if known.word in text} == disk.live(reader)


def entries(told):
    return json.loads(told)["entries"]


def test_the_specification_s_own_commands_are_verbs():
    assert set(ALIASES.values()) <= set(SHELL)


def test_a_spawned_run_is_its_agent_alone(disk, run, monkeypatch):
    monkeypatch.setenv("SYNAPSE_RUN", "run-1")
    monkeypatch.setenv("SYNAPSE_AGENT", "eng-c")
    assert {verb for verb, why in SHELL.items() if why == WHOLE} == OPERATORS
    needed = {"backup": "--json new", "import": "--json new", "register": "--json new"}
    needed |= {"revoke": "--json eng-a"}
    needed |= {"redact": "--json x --reason y", "token": "--json list"}
    for verb in OPERATORS:
        told = run(verb, needed.get(verb, "--json"))
        assert "SYNAPSE_RUN" in told
        assert disk.leaks("eng-c", told) == []
    for verb, line in (
        ("read", "--agent operator --json"),
        ("view", "lead"),
        ("unread", "--agent lead"),
    ):
        assert "acts as eng-c" in run(verb, line)
    assert {each["id"] for each in entries(run("read", "--json --limit 0"))} == disk.live("eng-c")


@pytest.mark.parametrize("verb", [verb for verb, why in SHELL.items() if why == NONE])
def test_verbs_that_tell_of_no_entry_tell_of_none(disk, run, verb):
    told = run(verb, "bash" if verb == "completion" else "--json")
    assert [known for known in disk.known if known.id in told or known.word in told] == []
