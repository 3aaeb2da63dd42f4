"""The shell on a server prints what it prints in the folder, byte for byte: nothing more, and
nothing less.
"""

import os
import re
import shutil
from contextlib import contextmanager
from dataclasses import replace

import pytest

import synapse
from synapse import cli
from synapse.acts import memory
from synapse.cli.verbs import REMOTE, VERBS
from synapse.trust.bearer import new_token
from synapse.wire import forms
from tests.gate.test_shell import SHELL, WRITERS, disk  # noqa: F401
from tests.gate.world import GHOST, GHOST_MESSAGE, READERS, samples, threads_of
from tests.synapse.served import serving
from tests.trusted import trust

SUPPORTED = sorted(verb for verb in REMOTE & SHELL.keys() if isinstance(SHELL[verb], tuple))
ACTS = sorted({*SUPPORTED} & {*WRITERS})
READS = sorted({*SUPPORTED} - {*WRITERS})
MADE = re.compile(r'("at": )\d+(?=, "unfit")')  # when a view was made: now, each time
# Of the lines about one entry, each agent walks one in so many in every run, all agents
# together walk all; in the soak each agent walks all.
PART = len(READERS)
FOLDER = ("--write",)  # options that need the folder


class Both:
    """A workspace in its folder, and the same one, or a copy, behind a server."""

    def __init__(self, root, address, tokens, capsys, monkeypatch):
        self.root, self.address, self.capsys = root, address, capsys
        self.monkeypatch, self._tokens, self._given = monkeypatch, tokens, {}

    def texts(self, verb, line, me, **filled):
        """What a line prints in the folder, and on the server as the agent's token."""
        if me not in self._given:
            self._given[me] = new_token(self._tokens, me)
        words = [word.format(me=me, **filled) for word in line.split()]
        self.monkeypatch.setenv("SYNAPSE_TOKEN", self._given[me])
        return [self._run([verb, "--root", root, *words]) for root in (self.root, self.address)]

    def _run(self, words):
        self.capsys.readouterr()
        code = cli.main(words)
        out, err = self.capsys.readouterr()
        return code, MADE.sub(r"\1NOW", out), err


@pytest.fixture
def plain(monkeypatch):
    for name in [name for name in os.environ if name.startswith("SYNAPSE_")]:
        if name != "SYNAPSE_HOME":
            monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def address(disk, tmp_path_factory):  # noqa: F811
    tokens = str(tmp_path_factory.mktemp("tokens") / "tokens")
    with synapse.open(disk.mem.store.root) as memory, serving(memory, tokens) as address:
        yield address, tokens


@pytest.fixture
def both(disk, address, capsys, monkeypatch, plain):  # noqa: F811
    return Both(disk.mem.store.root, *address, capsys, monkeypatch)


@contextmanager
def copied(world, folder):
    """Yield the world's folder twice: one copy to act in, one behind a server."""
    for name in ("here", "there"):
        shutil.copytree(world.mem.store.root, folder / name)
        trust(folder / name)
    tokens = str(folder / "tokens")
    with synapse.open(str(folder / "there")) as memory, serving(memory, tokens) as address:
        yield str(folder / "here"), address, tokens


def asked(world, reader, verb):
    """The lines of a verb, filled in: with every state of an entry, seen or not."""
    seen = {known.state: known for known in world.seen_by(reader)}
    for line in SHELL[verb]:
        if any(word in line for word in FOLDER):
            continue
        if "{thread}" in line:
            yield from ((line, {"thread": id}) for id in sorted(threads_of(world))[:4])
        elif "{id}" in line:
            yield from ((line, {"id": ghost}) for ghost in (GHOST, GHOST_MESSAGE))
            hidden = samples(world, reader)
            shown = seen.values() if verb not in WRITERS else ()
            yield from ((line, {"id": known.id}) for known in (*hidden, *shown))
        elif "{word}" in line:
            known = (*samples(world, reader), *seen.values())
            yield from ((line, {"word": each.word}) for each in known)
        else:
            yield line, {}


def differences(world, both, reader, verb, whole=False):
    """What the two print differently. The walk of every run asks of each agent about other states of
    entries, and of all together about all.
    """
    found, start = [], READERS.index(reader)
    for place, (line, filled) in enumerate(asked(world, reader, verb)):
        if "--mark" in line.split():
            continue  # moves the cursor: walked on two copies
        if filled and not whole and (place + start) % PART:
            continue
        here, there = both.texts(verb, line, reader, **filled)
        if here != there:
            found.append((line, filled, here, there))
    return found


def unasked(verb, reader):
    """Whether a line of this verb is none of the operator's."""
    theirs = (*WRITERS, "unread", "inbox", "poll")
    return reader == "operator" and verb in theirs and verb != "thread"


@pytest.mark.parametrize(
    "whole", [False, pytest.param(True, marks=pytest.mark.soak)], ids=("part", "whole")
)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("verb", SUPPORTED)
def test_the_server_says_what_the_folder_says(
    disk,  # noqa: F811
    both,
    verb,
    reader,
    whole,
):
    if not unasked(verb, reader):
        assert differences(disk, both, reader, verb, whole) == []


@pytest.mark.parametrize("reader", READERS[:2])
def test_acts_and_marks_are_the_same_on_two_copies(
    disk,  # noqa: F811
    reader,
    tmp_path,
    capsys,
    monkeypatch,
    plain,
):
    """What an act prints, and what it refuses, of one entry of each state that the agent sees."""
    seen = {known.state: known for known in disk.seen_by(reader)}.values()
    found = []
    with copied(disk, tmp_path) as places:
        both = Both(*places, capsys, monkeypatch)
        for verb in (*READS, *ACTS):
            for line in SHELL[verb]:
                lines = [{}] if "--mark" in line.split() else []
                if verb in ACTS and line.endswith("--json {id}"):
                    lines = [{"id": known.id} for known in seen]
                for filled in lines:
                    here, there = both.texts(verb, line, reader, **filled)
                    found += [] if here == there else [(verb, line, here, there)]
    assert found == []


@pytest.mark.parametrize(
    ("verb", "plant"),
    [
        ("read", lambda form: form | {"cursor": form["cursor"] + 1}),
        ("read", lambda form: form | {"entries": form["entries"][:-1]}),
        ("read", lambda form: form | {"visible": form["visible"] + 1}),
        ("read", lambda form: _trusted(form)),
    ],
)
def test_a_planted_difference_is_found(
    disk,  # noqa: F811
    both,
    monkeypatch,
    verb,
    plant,
):
    planted = replace(memory.read.answer, form=lambda page: plant(forms.page_wire(page)))
    monkeypatch.setitem(vars(memory.read), "answer", planted)
    assert differences(disk, both, "lead", verb) != []


def _trusted(form):
    """One entry is said to be signed."""
    first, *others = form["entries"]
    return form | {"entries": [first | {"trust": "keyed"}, *others]}


# -- what needs the folder -------------------------------------------------------------


@pytest.mark.parametrize("verb", sorted(VERBS.keys() - REMOTE))
def test_what_needs_the_folder_says_so(verb, capsys, plain, monkeypatch):
    lines = {"repair": [], "taint": ["x", "--reason", "y"], "untaint": ["x"]}
    lines |= {"backup": ["x"], "export": ["x"], "import": ["x"]}
    lines |= {"merge": ["x"], "redact": ["x", "--reason", "y"], "revoke": ["x"]}
    lines |= {"register": ["--id", "x"], "undo": ["last"], "keys": ["list"]}
    lines |= {"token": ["list"], "reputation": ["x"]}
    for words in (
        [verb, "--root", "https://host.invalid", *lines.get(verb, [])],
        [verb, *lines.get(verb, [])],
    ):
        if "--root" not in words:
            monkeypatch.setenv("SYNAPSE_ROOT", "https://host.invalid")
        code = cli.main(words)
        out, err = capsys.readouterr()
        assert (code, out) == (64, "")
        assert err.count("\n") == 1
        assert "needs the folder" in err


def test_a_view_is_written_where_the_folder_is(both):
    _, (code, out, err) = both.texts("view", "{me} --write", "eng-a")
    assert (code, out) == (64, "")
    assert "needs the folder" in err


def test_another_agent_than_the_token_s_is_refused(both, capsys):
    both.texts("unread", "--agent {me}", "eng-a")
    code, out, err = both._run(["unread", "--root", both.address, "--agent", "lead"])
    assert (code, out) == (4, "")
    assert "eng-a" in err
    code, out, _ = both._run(["where", "--root", both.address])
    assert code == 0
    assert both.address in out
    assert "eng-a" in out


def test_a_spawned_run_uses_no_server(both, monkeypatch):
    monkeypatch.setenv("SYNAPSE_RUN", "run-1")
    monkeypatch.setenv("SYNAPSE_AGENT", "eng-a")
    code, out, err = both._run(["read", "--root", both.address])
    assert (code, out) == (4, "")
    assert "SYNAPSE_RUN" in err
