"""Five thousand hostile namespaces: none is accepted by any way in, and nothing lands outside the
workspace.
"""

import itertools
import json
import os
import random

import pytest

import synapse
from synapse.log import adopt
from synapse.model.namespace import is_namespace

UP = [
    "..",
    "%2e%2e",
    "..%2f",
    "%252e%252e",
    "..\\",
    ". .",
    "․․",
    "..;",
    "...",
    "....//",
    "..%00",
    "..%c0%af",
    "\u2025",
    "．．",
]
BAD = [
    "", ".", "~", "~root", "-", "_", "_x", "-x", "A", "aB", "ä", "éa", "еng", "a b", " a", "a ",
    "a.", ".a", "a.md", "a\0b", "\0", "a\nb", "a\tb", "a\rb", "a\x7f", "a\u200db", "a\u202eb",
    "\ufeffa", "a\u0301", "ａ", "a\U000e0041", "💥", "a:b", "c:", "c:\\x", "\\\\host\\share", "a\\b",
    "a%2fb", "a%00", "a*", "*", "a?", "[a]", "{a}", "a|b", "a;b", "a&b", "$(id)", "`id`", "${HOME}",
    "a'b", 'a"b', "a<b", "a,b", "a=b", "a+b", "CON", "NUL", "com1.txt", "a" * 64, "a" * 300,
    "a" * 5_000, "1" * 64, "٣", "²", "ǆ", "ﬁ", "İ", "ß", "Ⅷ", "𝒶",
    "a\ud800".encode("utf-8", "replace").decode(),
]  # fmt: skip
TARGETS = ["etc/passwd", "api/endpoints", "decisions", "outside", "journal/lock", "agents/cto", ""]


def hostile(count):
    """So many different names that are no namespace, by lists and by chance."""
    found = dict.fromkeys(
        "/".join([up] * depth + [target])
        for up in UP
        for depth in (1, 2, 5, 9)
        for target in TARGETS
    )
    found |= dict.fromkeys(
        itertools.chain(BAD, (f"{ok}/{bad}" for ok in ("api", "a/b") for bad in BAD))
    )
    found |= dict.fromkeys(f"{bad}/{ok}" for bad in BAD for ok in ("api", "x/y"))
    found |= dict.fromkeys(
        ("/api", "api/", "//api", "api//x", "/", "//", "a/" * 6 + "a", "a/" * 100 + "a", "api/./x")
    )
    chance = random.Random(5)
    while len(found) < count:
        parts = [chance.choice([*UP, *BAD, "api", "x", "0"]) for _ in range(chance.randint(1, 8))]
        found[chance.choice(("/", "//", "\\", "/./", "/../")).join(parts)] = None
    return [name for name in found if not is_namespace(name)][:count]


NAMES = hostile(5_400)[:5_000]
# Where each is a file, every fifth in every run: the writing takes longer than the looking.
SOME_OR_ALL = [
    pytest.param(NAMES[::5], id="some"),
    pytest.param(NAMES, id="all", marks=pytest.mark.soak),
]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(adopt, "SETTLED", -1)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)


@pytest.fixture
def memory(tmp_path):
    with synapse.init(str(tmp_path / "deep" / "memory")) as memory:
        memory.register(synapse.Agent("eng", read=["*"], write=["*"]))
        memory.as_agent("eng").append("what was there", "api/endpoints")
        memory.store.refresh(whole=True)
        yield memory


def everything(tmp_path):
    """Every path below the test's own folder, but those that the workspace is there to hold."""
    inside = tmp_path / "deep" / "memory"
    holding = {inside / name for name in ("quarantine", "journal", ".index", "inbox")}
    return sorted(str(path) for path in tmp_path.rglob("*") if not holding & {path, *path.parents})


def test_they_are_many_and_all_different():
    assert len(set(NAMES)) == 5_000
    assert not any(map(is_namespace, NAMES))


def test_none_is_accepted_from_a_seat(memory, tmp_path):
    before, me = everything(tmp_path), memory.as_agent("eng")
    for name in NAMES:
        with pytest.raises(synapse.InvalidEntry):
            me.append("body", name)
    assert everything(tmp_path) == before
    assert [entry.body for entry in me.read()] == ["what was there"]


@pytest.mark.parametrize("names", SOME_OR_ALL)
def test_none_is_accepted_from_a_file_in_an_inbox(memory, tmp_path, names):
    before = everything(tmp_path)
    inbox = tmp_path / "deep" / "memory" / "inbox" / "eng" / "new"
    inbox.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        front = f"id: syn-x-{number}\nfrom: eng\ntimestamp: 2026-02-01T00:00:00Z\npriority: info\n"
        front += f"namespace: {json.dumps(name)}\n"
        (inbox / f"x{number}.md").write_text(f"---\n{front}---\n\nbody\n")
    memory.store.refresh(whole=True)
    assert everything(tmp_path) == before
    assert not list(inbox.iterdir())
    assert [entry.body for entry in memory.as_agent("eng").read()] == ["what was there"]
    assert len(memory.audit()) == 2 + len(names)
    assert memory.verify().problems == ()


def test_none_is_accepted_as_a_folder(memory, tmp_path):
    """Those that can be folders at all; a file in one is put aside, and says in which."""
    entries, made = os.fsencode(tmp_path / "deep" / "memory" / "entries"), 0
    for number, name in enumerate(NAMES[::3]):
        folder = os.path.normpath(
            os.path.join(entries, name.lstrip("/").encode("utf-8", "surrogatepass"))
        )
        place = os.path.relpath(folder, entries).decode("utf-8", "replace")
        if not folder.startswith(entries + b"/") or is_namespace(place) or b"\0" in folder:
            continue
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError:
            continue
        front = f"id: syn-x-{number}\nfrom: eng\ntimestamp: 2026-02-01T00:00:00Z\npriority: info\n"
        with open(os.path.join(folder, b"x%d.md" % number), "w") as file:
            file.write(f"---\n{front}---\n\nbody\n")
        made += 1
    memory.store.refresh(whole=True)
    assert made > 300
    assert [entry.body for entry in memory.as_agent("eng").read()] == ["what was there"]
    assert len(memory.audit()) == 2 + made
    assert sorted(os.listdir(tmp_path)) == ["deep"]
    assert sorted(os.listdir(tmp_path / "deep")) == ["memory"]
    assert memory.verify().problems == ()


def test_none_is_accepted_as_a_glob(memory, tmp_path):
    before, me = everything(tmp_path), memory.as_agent("eng")
    count = len(memory.audit())
    for name in NAMES:
        if name in ("", "*") or not set(name) - set(
            ", \t\r\n*/abcdefghijklmnopqrstuvwxyz0123456789_-"
        ):
            continue  # nothing, or a list of globs that are fine
        for glob in (name, f"{name}/*"):
            with pytest.raises((synapse.InvalidEntry, synapse.InvalidQuery)):
                me.read(namespace=[glob.replace(",", ".")])
            with pytest.raises(synapse.InvalidEntry):
                memory.register(synapse.Agent("new", read=[glob.replace(",", ".")]))
            with pytest.raises(synapse.InvalidEntry):
                memory.register(synapse.Agent("new", write=[glob.replace(",", ".")]))
    assert len(memory.audit()) == count
    assert everything(tmp_path) == before


def test_none_is_accepted_as_an_agent(memory, tmp_path):
    before = everything(tmp_path)
    for name in NAMES:
        with pytest.raises(synapse.InvalidEntry):
            memory.register(synapse.Agent(name))
        with pytest.raises((synapse.NotFound, synapse.InvalidEntry)):
            memory.as_agent(name)
    assert everything(tmp_path) == before


def test_a_name_that_begins_like_a_granted_one_is_not_granted(memory):
    memory.register(
        synapse.Agent("narrow", read=["status/frontend"], write=["status/frontend", "api/v1/*"])
    )
    me = memory.as_agent("narrow")
    for name in (
        "status/frontend2",
        "status/frontend-2",
        "status",
        "status/front",
        "api/v10",
        "api/v1x/y",
        "api",
    ):
        with pytest.raises(synapse.Forbidden):
            me.append("body", name)
    for name in ("status/frontend", "api/v1", "api/v1/users"):
        assert me.append("body", name).namespace == name
