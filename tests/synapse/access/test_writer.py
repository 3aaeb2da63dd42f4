"""Seats of runs: where they may write, and that nothing of a stale incarnation goes in."""

import subprocess
import sys

import pytest

import synapse
from synapse import Conflict, Forbidden, InvalidEntry, QueueFull
from synapse.access.writer import incarnation
from synapse.model.agents import Agent
from synapse.model.records import Record, fence, unclaimed
from synapse.testing import FrozenClock


def keep(mem, run, by="eng", **fields):
    return mem.store.commit.append(Record.new("run", by, {"run": run, **fields}, key=f"run:{run}"))


def start(mem, run="r", by="eng", epoch=1, **fields):
    return keep(mem, run, by, epoch=epoch, state="running", agent=by, **{"project": "p"} | fields)


@pytest.fixture
def mem():
    with synapse.open("memory:", clock=FrozenClock()) as mem:
        mem.register(Agent("eng", read=["api/*"], write=["api/*"]))
        mem.register(Agent("lead", role="project-lead", read=["*"], write=["*"]))
        mem.register(Agent("junior", read=["api/*"], write=["api/*"], review_required=True))
        start(mem)
        yield mem


def refusals(mem):
    return [record for record in mem.store.log.since() if record.kind == "refused"]


def test_a_run_may_write_in_its_project(mem):
    me = mem.as_agent("eng", run="r", epoch=1)
    entry = me.append("Done: it works", "status/p")
    assert (entry.authority, me.get(entry.id).body) == (60, "Done: it works")
    me.append("Done: even better", "status/p", supersedes=entry.id)
    with pytest.raises(Forbidden):
        mem.as_agent("eng").append("no", "status/p")
    with pytest.raises(Forbidden):
        me.append("no", "status/q")


def test_a_run_reads_its_project_and_rules_on_nobody_above_it(mem):
    lead = mem.as_agent("lead")
    theirs = [lead.append("theirs", f"{place}/p") for place in ("status", "blockers", "projects")]
    lead.append("another project's", "status/q")
    lead.append("for a team of that name", "team/p", to="team:p")
    mine = mem.as_agent("eng", run="r", epoch=1)
    assert [entry.body for entry in mine.read()] == ["theirs", "theirs", "theirs"]
    assert mine.briefing().included
    assert [hit.entry.id for hit in mine.search("theirs")]
    with pytest.raises(Forbidden, match="it takes authority 80"):
        mine.resolve(theirs[0].id)
    assert [entry.body for entry in mem.as_agent("eng").read()] == []
    with pytest.raises(synapse.NotFound):
        mem.as_agent("eng").resolve(theirs[0].id)


def test_a_run_is_its_own_agent_s(mem):
    with pytest.raises(Forbidden, match="run r is eng's"):
        mem.as_agent("lead", run="r", epoch=1).append("x", "api/x")
    with pytest.raises(InvalidEntry):
        mem.as_agent("eng", run="r")
    with pytest.raises(InvalidEntry):
        mem.as_agent("eng", epoch=1)


ACTS = {
    "append": (lambda me, ids: me.append("x", "api/x"), "entry in api/x"),
    "once": (lambda me, ids: me.append("x", "api/x", once="fresh"), "entry in api/x"),
    "resolve": (lambda me, ids: me.resolve(ids[0]), "resolve"),
    "archive": (lambda me, ids: me.archive(ids[0]), "archive"),
    "restore": (lambda me, ids: me.restore(ids[1]), "restore"),
    "mark": (lambda me, ids: me.read(mark=True), "shown"),
    "briefing": (lambda me, ids: me.briefing(mark=True), "shown"),
}
STALE = {
    "epoch 2": lambda mem: keep(mem, "r", epoch=2),
    "has ended": lambda mem: keep(mem, "r", epoch=1, state="ended", status="stopped"),
}


@pytest.mark.parametrize("name", ACTS)
@pytest.mark.parametrize("why", STALE)
def test_a_stale_incarnation_writes_nothing(mem, name, why):
    me, (act, what) = mem.as_agent("eng", run="r", epoch=1), ACTS[name]
    ids = [me.append(f"{n}", "api/x").id for n in range(2)]
    me.archive(ids[1])
    STALE[why](mem)
    before = mem.store.log.mark()[1]
    with pytest.raises(Conflict, match=why) as caught:
        act(me, ids)
    assert mem.store.log.mark()[1] == before + 1
    current = 2 if why == "epoch 2" else 1
    assert refusals(mem)[0].fields == {"run": "r", "epoch": 1, "current": current, "what": what}
    assert caught.value.details == {"run": "r", "epoch": 1, "current": current, "what": what}


@pytest.mark.parametrize("act", ["approve", "reject", "vouch"])
def test_a_stale_incarnation_rules_on_nothing(mem, act):
    start(mem, "s", "lead")
    me = mem.as_agent("lead", run="s", epoch=1)
    waiting = mem.as_agent("junior").append("x", "api/x")
    if act == "vouch":
        entry = waiting._replace(id="", staged=False, trust="unverified")
        waiting = mem.store.commit.append(Record.new("entry", "junior", {}, entry))
    keep(mem, "s", "lead", epoch=2)
    with pytest.raises(Conflict, match="epoch 2"):
        getattr(me, act)(waiting.id)
    assert [record.fields["what"] for record in refusals(mem)] == [act]


def test_what_was_written_before_is_returned_again(mem):
    me = mem.as_agent("eng", run="r", epoch=1)
    first = me.append("x", "api/x", once="r/1/0")
    keep(mem, "r", epoch=2)
    assert me.append("x", "api/x", once="r/1/0").id == first.id
    assert mem.as_agent("eng", run="r", epoch=2).append("x", "api/x", once="r/1/0").id == first.id


def test_a_staged_entry_needs_room_and_the_right_incarnation(mem):
    start(mem, "s", "junior")
    me = mem.as_agent("junior", run="s", epoch=1)
    mem.store.operator_files.declare(mem.store.settings._replace(staging_limit=1))
    me.append("x", "api/x")
    with pytest.raises(QueueFull):
        me.append("y", "api/x")
    keep(mem, "s", "junior", epoch=2)
    with pytest.raises(Conflict, match="epoch 2"):
        me.append("z", "api/x")
    assert len(refusals(mem)) == 1


def test_a_run_that_nobody_started_writes_nothing(mem):
    with pytest.raises(Conflict, match="there is no run ghost"):
        mem.as_agent("eng", run="ghost", epoch=1).append("x", "api/x")


def test_the_environment_says_which_incarnation(mem, monkeypatch):
    monkeypatch.setenv("SYNAPSE_AGENT", "eng")
    monkeypatch.setenv("SYNAPSE_RUN", "r:1")
    assert mem.as_agent("eng").append("x", "status/p").namespace == "status/p"
    assert mem.as_agent("eng", run="r", epoch=1).writer.fence.key == "run:r"
    for run, epoch in (("r", 2), ("s", 1)):
        with pytest.raises(Forbidden):
            mem.as_agent("eng", run=run, epoch=epoch)
    keep(mem, "r", epoch=2)
    with pytest.raises(Conflict):
        mem.as_agent("eng").append("x", "api/x")


@pytest.mark.parametrize(
    ("text", "found"), [("", (None, None)), ("r", ("r", None)), ("r:12", ("r", 12))]
)
def test_incarnation(monkeypatch, text, found):
    monkeypatch.setenv("SYNAPSE_RUN", text)
    assert incarnation() == found


@pytest.mark.parametrize("text", ["r:", ":1", "r:one", "r:1:2", "r:-1", "r:²"])
def test_an_incarnation_that_cannot_be_read_is_nobody(monkeypatch, text):
    monkeypatch.setenv("SYNAPSE_RUN", text)
    with pytest.raises(Forbidden, match="RUN:EPOCH"):
        incarnation()


def kept(*fields):
    return [Record.new("run", "a", each) for each in fields]


def test_fence():
    assert not fence("r", 1).holds([])
    assert fence("r", 1).holds(kept({"epoch": 1}, {"usage": 3}))
    assert not fence("r", 1).holds(kept({"epoch": 1}, {"epoch": 2}))
    assert not fence("r", 1).holds(kept({"epoch": 1}, {"epoch": 1, "state": "ended"}, {}))


def test_unclaimed():
    lease = {"agent": "a", "run": "r", "until": 10}
    assert unclaimed("k", 5, "b").holds([])
    assert not unclaimed("k", 5, "b").holds(kept(lease))
    assert not unclaimed("k", 5, "a").holds(kept(lease))
    assert unclaimed("k", 5, "a", "r").holds(kept(lease))
    assert unclaimed("k", 10, "b").holds(kept(lease))
    assert unclaimed("k", 5, "b").holds(kept(lease, lease | {"end": True}))
    assert unclaimed("k", 5, "b", "s", {"r"}).holds(kept(lease))


STALE_PROCESS = """
import sys, synapse
with synapse.open(sys.argv[1]) as mem:
    me = mem.as_agent("eng")
    me.append("first", "status/p")
    print("wrote", flush=True)
    sys.stdin.readline()
    for n in range(20):
        try:
            me.append("late", "status/p", once=f"late-{n}")
        except synapse.Conflict as error:
            print(error, flush=True)
            break
"""


def test_another_process_takes_over(tmp_path):
    root = str(tmp_path / "memory")
    with synapse.init(root) as mem:
        mem.register(Agent("eng", read=["api/*"], write=["api/*"]))
        start(mem)
        env = {"SYNAPSE_RUN": "r:1", "SYNAPSE_AGENT": "eng", "PATH": "/usr/bin:/bin"}
        other = subprocess.Popen(
            [sys.executable, "-c", STALE_PROCESS, root],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd=sys.path[0] or None,
        )  # fmt: skip
        assert other.stdout.readline() == "wrote\n"
        keep(mem, "r", epoch=2)
        said, _ = other.communicate("go\n", timeout=20)
        assert "goes on as epoch 2" in said
        mem.as_agent("eng", run="r", epoch=2).append("second", "status/p")
        assert [
            record.text
            for record in mem.store.log.since()
            if record.kind == "entry" and "late" in record.text
        ] == []
        assert len(refusals(mem)) == 1
        assert mem.verify().ok
