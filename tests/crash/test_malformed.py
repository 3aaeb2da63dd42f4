"""A line that follows from the one before it, but is no record of its kind, stops nobody.

It comes by git, in a copy of the journal or in an export: whoever can offer a branch can write one.
"""

import copy
import json
import subprocess
import sys

import pytest

import synapse
from synapse.errors import InvalidEntry
from synapse.exchange import merge_in
from synapse.log import chain
from synapse.log.chain import decode, encode, tail_of
from synapse.model.records import Record
from synapse.testing import FrozenClock
from tests.accepted import accept

MISSING = object()
AGENT = {"id": "zoe", "role": "engineer", "authority": 60, "read": ["*"], "write": ["*"]}
ENTRY = {
    "author": "ada",
    "namespace": "projects/p",
    "timestamp": "2026-02-01T00:00:00Z",
    "priority": "info",
    "ttl": "7d",
    "authority": 60,
    "trust": "local",
    "start": 0,
}
DONE = {"note": "done", "by": "eng"}
# A record of each kind that is read, with all that its readers ask of it.
SOUND = {
    "entry": ENTRY,
    "agent": {"agent": AGENT, "how": "registered", "sha": "0" * 64},
    "approve": {"entry": "syn-1"},
    "reject": {"entry": "syn-1", "reason": "no"},
    "vouch": {"entry": "syn-1", "authority": 50, "trust": "reviewed", "priority": "info"},
    "resolve": {"entry": "syn-1", "note": "done"},
    "archive": {"ids": ["syn-1"], "reason": "old"},
    "restore": {"ids": ["syn-1"], "reason": "new"},
    "taint": {"entry": "syn-1", "ids": ["syn-1"], "reason": "bad"},
    "untaint": {"entry": "syn-1", "ids": ["syn-1"], "holds": [[1, True]], "freed": ["syn-1"]},
    "undo": {"what": "last", "back": [], "away": [], "freed": [], "held": [], "acts": [1]}
    | {"holds": [[1, True]], "reviews": [[1, True]]},
    "shown": {"cursor": 1, "agent": "ada"},
    "void": {"seq": 999},
    "run": {"run": "r-1", "agent": "ada", "epoch": 1, "state": "running", "intent": "i"},
    "delivery": {"run": "r-1", "agent": "ada", "epoch": 1, "state": "offered", "ids": ["syn-1"]},
    "link": {"cause": "atom_000000000001", "effect": "atom_000000000002"}
    | {"type": "causes", "strength": 0.5},
    "used": {"counts": {"syn-1": 2}},
    "receipt": {"ids": ["syn_000000000001"]},
    "acked": {"entry": "syn_000000000001", "body": "yes"},
    "react": {"entry": "syn_000000000001", "reaction": "+1"},
    "thread": {"thread": "thr_1", "how": "tag", "add": ["a"], "remove": ["b"]},
    "repair": {"ids": [], "lost": ["syn-1"], "lines": [[1, 2, "0" * 64]]},
    "redact": {"entry": "syn-1", "sha": "0" * 64, "reason": "gone"},
    "claim": {"work": "w", "agent": "ada", "until": 5, "run": None},
}
REQUIRED = {
    "entry": "author namespace timestamp priority ttl",
    "agent": "agent",
    **dict.fromkeys("approve reject vouch resolve acked redact".split(), "entry"),
    **dict.fromkeys("archive restore taint untaint receipt".split(), "ids"),
    "undo": "what",
    "void": "seq",
    "run": "run",
    "delivery": "state",
    "link": "cause effect type strength",
    "used": "counts",
    "react": "entry reaction",
    "thread": "thread how",
    "shown": "cursor",
}
WRONG = (None, 7, "x", [], {}, [[]], [None], {"a": []}, 1 << 70, "\ud800", True)


def without(kind, name):
    return {key: value for key, value in SOUND[kind].items() if key != name}


def agent(**fields):
    return {"agent": AGENT | fields, "how": "registered"}


# What a stranger was seen to try, and one of each sort for every kind.
FORMS = {
    "an agent by the operator's name": ("agent", agent(id="operator")),
    "an agent by everybody's name": ("agent", agent(id="all")),
    "an agent by a name that is a path": ("agent", agent(id="../zoe")),
    "an agent that is a list": ("agent", {"agent": ["zoe"]}),
    "an agent that is a text": ("agent", {"agent": "zoe"}),
    "an agent without an id": ("agent", {"agent": {"role": "cto"}}),
    "an agent with patterns that are numbers": ("agent", agent(read=[1])),
    "an agent with an authority that is a text": ("agent", agent(authority="100")),
    "an agent with skills that are none": ("agent", agent(skills=[["x"]])),
    "an agent of a role that is a list": ("agent", agent(role=["cto"])),
    "fields that are a list": ("resolve", ["entry"]),
    "a time to live that is none": ("entry", ENTRY | {"ttl": "soon"}),
    "a priority that is none": ("entry", ENTRY | {"priority": "high"}),
    "a kind that is none": ("entry", ENTRY | {"kind": "rumour"}),
    "a message without a thread": ("entry", ENTRY | {"kind": "message", "namespace": "mail"}),
} | {
    f"{kind} without {name}": (kind, without(kind, name))
    for kind, names in REQUIRED.items()
    for name in names.split()
}


def line(before, record):
    """Return the line of a record behind another line, as our own writer makes it."""
    tail = tail_of(before, 0)
    return encode(tail, tail.at + 1, record)[0]


def record_of(kind, fields, id="syn-2026-02-01-900"):
    text = "a body of another's\n" if kind == "entry" else None
    return Record(0, 0, kind, "ada", id if kind == "entry" else None, fields, text)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    clock = FrozenClock()
    root = tmp_path_factory.mktemp("malformed") / "memory"
    with synapse.init(str(root), clock=clock) as memory:
        memory.register(synapse.Agent("ada", read=["*"], write=["*"]))
        ada = memory.as_agent("ada")
        for number in range(3):
            ada.append(f"entry {number}", "projects/p")
    clock.advance("1m")
    journal = root / "journal" / f"{1:012d}.jsonl"
    return root, clock, journal.read_bytes().splitlines(keepends=True)


def copied(template, folder, more=()):
    """Return a copy of the workspace, with these lines at the end of its journal."""
    import shutil

    root = shutil.copytree(template[0], folder / "memory")
    with open(root / "journal" / f"{1:012d}.jsonl", "ab") as file:
        file.writelines(more)
    return accept(root)


def bodies(agent_memory):
    return [entry.body for entry in agent_memory.read()]


def acts_on(root, clock, named=1):
    """Do everything that a person would, and check that the records are named and stop nothing."""
    with synapse.open(str(root), clock=clock) as memory:
        ada = memory.as_agent("ada")
        assert "entry 0" in bodies(ada)
        written = ada.append("mine", "projects/p")
        assert {agent.id for agent in memory.agents()} == {"ada"}
        for report in (memory.verify(), memory.repair()):
            found = [problem for problem in report.problems if "set aside" in problem.what]
            assert len(found) == len(report.problems) == named
            assert all(problem.where.startswith("record ") for problem in found)
        memory.rebuild()
        assert ada.get(written.id).body == "mine"
        assert "mine" in bodies(ada)
    with synapse.open(str(root), clock=clock) as memory:
        assert memory.as_agent("ada").get(written.id).body == "mine"
    return found


@pytest.mark.parametrize("form", FORMS)
def test_a_malformed_line_at_the_end_stops_nobody(template, tmp_path, form):
    """As a fast-forward leaves it: the file is longer. What comes behind it counts."""
    root, clock, lines = template
    kind, fields = FORMS[form]
    bad = line(lines[-1], record_of(kind, fields))
    root = copied(template, tmp_path, [bad, line(bad, record_of("archive", {"ids": []}))])
    (found,) = acts_on(root, clock)
    assert kind in found.what
    assert f"line {len(lines) + 1} " in found.what


@pytest.mark.parametrize("form", FORMS)
def test_a_malformed_line_of_a_branch_stops_no_merge(template, tmp_path, form):
    """As git's union leaves it: both sides' lines, one behind the other."""
    root, clock, lines = template
    kind, fields = FORMS[form]
    entry = record_of("entry", ENTRY, "syn-2026-02-01-901")
    ours = line(lines[-1], entry)
    bad = line(lines[-1], record_of(kind, fields))
    theirs = [bad, line(bad, record_of("entry", ENTRY, "syn-2026-02-01-902"))]
    root = copied(template, tmp_path, [ours, *theirs])
    with synapse.open(str(root), clock=clock) as memory:
        merged = merge_in(memory.store, None)
        assert merged.records == 2
        assert memory.as_agent("ada").get("syn-2026-02-01-902").body == "a body of another's"
    (found,) = acts_on(root, clock)
    assert kind in found.what


@pytest.mark.parametrize("form", FORMS)
def test_an_import_or_a_merge_of_a_copy_that_holds_one_writes_nothing(template, tmp_path, form):
    _, clock, lines = template
    kind, fields = FORMS[form]
    bad = line(lines[-1], record_of(kind, fields))
    export = [raw.decode() for raw in (*lines, bad)]
    with synapse.init(str(tmp_path / "new"), clock=clock) as memory:
        with pytest.raises(InvalidEntry, match=f"line {len(export)} cannot be taken in"):
            memory.import_(export)
        assert list(memory.export()) == []
        memory.import_(export[:-1])
        assert memory.verify().ok
    (tmp_path / "export.jsonl").write_text("".join(export))
    with synapse.open(str(copied(template, tmp_path)), clock=clock) as memory:
        before = list(memory.export())
        with pytest.raises(InvalidEntry, match=f"line {len(export)} cannot be taken in"):
            merge_in(memory.store, str(tmp_path / "export.jsonl"))
        assert list(memory.export()) == before


def test_what_is_given_up_is_named_no_more(template, tmp_path):
    """Then an export and a snapshot can be taken in again, and a merge keeps that."""
    root, clock, lines = template
    bad = line(lines[-1], record_of(*FORMS["resolve without entry"]))
    root = copied(template, tmp_path, [bad])
    with synapse.open(str(root), clock=clock) as memory:
        dry = memory.repair(dry_run=True, give_up=True)
        assert [problem.where for problem in dry.problems] == [
            f"record {len(lines) + 1} (malformed)"
        ]
        done = memory.repair(give_up=True)
        assert done.ok, done
        assert done.notes == (f"record {len(lines) + 1} (malformed): given up",)
        assert memory.repair(give_up=True).notes == ()
        export = list(memory.export())
    with synapse.init(str(tmp_path / "new"), clock=clock) as memory:
        memory.import_(export)
        assert memory.verify().ok
    other = line(lines[-1], record_of("entry", ENTRY))
    (tmp_path / "ours").mkdir()
    ours = copied(template, tmp_path / "ours", [other])
    with synapse.open(str(ours), clock=clock) as memory:
        merge_in(memory.store, str(root))
        assert memory.verify().ok


def spoiled(fields):
    """Yield the fields with each value, at whatever depth, missing or of another form."""
    for name, value in fields.items():
        yield {key: fields[key] for key in fields if key != name}
        for wrong in WRONG:
            yield fields | {name: copy.deepcopy(wrong)}
        if isinstance(value, dict):
            yield from (fields | {name: changed} for changed in spoiled(value))


@pytest.mark.parametrize("kind", SOUND)
def test_no_form_of_a_field_stops_anybody(template, tmp_path, kind):
    """Each key missing, and each value in eleven wrong forms: what is taken in can be read, what
    cannot be read is set aside.
    """
    _, clock, lines = template
    records = [record_of(kind, SOUND[kind])]
    for number, fields in enumerate(spoiled(SOUND[kind])):
        records.append(record_of(kind, fields, f"syn-2026-02-01-{1000 + number}"))
    more = [lines[-1]]
    for record in records:
        more.append(spelt(more[-1], record))
    aside = [raw for raw in more[1:] if decode(raw).kind == "malformed"]
    assert more[1] not in aside
    assert aside
    root = copied(template, tmp_path, more[1:])
    with synapse.open(str(root), clock=clock) as memory:
        ada = memory.as_agent("ada")
        ada.read()
        list(memory.audit())
        memory.agents()
        ada.append("mine", "projects/p")
        report = memory.verify()
        named = [problem for problem in report.problems if "set aside" in problem.what]
        assert len(named) == len(aside)
        memory.repair()
        memory.rebuild()
        memory.digest()


def spelt(before, record):
    """Return the line of a record that may hold what our own writer would not write."""
    tail = tail_of(before, 0)
    raw, _, _ = encode(tail, tail.at + 1, record._replace(fields={}))
    _, head, text = chain.split(raw)
    head = head.split(b',"sha"')
    fields = json.dumps(record.fields).encode().replace(b', "text":', b', "\\u0074ext":')
    covered = b',"sha"'.join([head[0] + b',"f":' + fields, *head[1:]])
    return chain.assemble(chain.link(tail.chain, covered), covered, text)


@pytest.mark.parametrize(
    "change",
    [
        {"by": 7},
        {"kind": ["entry"]},
        {"id": {}},
        {"once": 1},
        {"key": []},
        {"path": 3},
        {"f": "x"},
        {"f": 3},
    ],
)
def test_a_head_of_another_form_stops_nobody(template, tmp_path, change):
    _, clock, lines = template
    tail = tail_of(lines[-1], 0)
    raw, _, _ = encode(tail, tail.at + 1, record_of("resolve", {"entry": "syn-1"}))
    got = {name: value for name, value in json.loads(raw).items() if name != "chain"} | change
    head = json.dumps(got, separators=(",", ":")).encode()[1:-1]
    bad = chain.assemble(chain.link(tail.chain, head), head, b"")
    acts_on(copied(template, tmp_path, [bad]), clock)


def test_doctor_names_it_and_the_commands_go_on(template, tmp_path):
    _, _, lines = template
    bad = line(lines[-1], record_of("resolve", {"note": "what?"}))
    root = copied(template, tmp_path, [bad])

    def run(*args):
        command = [sys.executable, "-m", "synapse", "--root", str(root), *args]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout + done.stderr

    assert "`entry` is missing" in run("doctor")[1]
    for args in (["read"], ["agents"], ["rebuild"], ["repair"], ["verify"]):
        code, said = run(*args)
        assert "KeyError" not in said
        assert code == (6 if args[0] in ("repair", "verify") else 0), said


def test_a_reader_that_believes_every_line_is_found_out(template, tmp_path, monkeypatch):
    from synapse.log import chain as lines_of_journal

    monkeypatch.setattr(lines_of_journal, "misfit", lambda *_: None)
    form = next(form for form in FORMS if form == "resolve without entry")
    with pytest.raises((AssertionError, synapse.SynapseError)):
        test_a_malformed_line_at_the_end_stops_nobody(template, tmp_path, form)
