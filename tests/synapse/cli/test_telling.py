"""The operator's voice, what agents ask it, and acknowledging what was delivered."""

import json
import os

import pytest

import synapse
from synapse.consolidate import run_nightly
from synapse.model.records import Record


def seen(run, who):
    return json.loads(run("read", "--agent", who, "--json").out)["entries"]


def test_what_the_operator_says_reaches_whom_it_names_whatever_they_read(team, run):
    with synapse.open(str(team)) as mem:
        said = mem.tell("team:frontend", "use the old login")
        mem.tell("eng-backend", "and you, the new", priority="important")
    (entry,) = seen(run, "eng-frontend")
    assert (entry["id"], entry["from"], entry["priority"], entry["body"]) == (
        said.id, "operator", "critical", "use the old login",
    )  # fmt: skip
    assert entry["namespace"] == "team/frontend"
    assert [entry["namespace"] for entry in seen(run, "eng-backend")] == ["agents/eng-backend"]


def test_what_the_operator_says_to_all_is_seen_by_each_for_its_time(team, run):
    with synapse.open(str(team)) as mem:
        said = mem.tell("all", "stop", ttl="1d")
        agents = sorted(mem.store.agents.all())
        assert said.expires - said.at == 86_400_000_000
    for agent in agents:
        assert said.id in [entry["id"] for entry in seen(run, agent)]


def test_what_the_operator_says_wakes(team, run):
    with synapse.open(str(team)) as mem:
        mem.tell("eng-backend", "stop")
    heard = run("watch", "--agent", "eng-backend", "--critical", "--since", "0", "--timeout", "0")
    assert "stop" in heard.out
    assert run("unread", "--agent", "eng-backend").out.strip().startswith("1")


def test_the_operator_speaks_to_somebody(team):
    with synapse.open(str(team)) as mem:
        with pytest.raises(synapse.NotFound, match="no team and no agent nobody"):
            mem.tell("nobody", "x")
        with pytest.raises(synapse.InvalidEntry):
            mem.tell("eng-backend", "x", priority="high")
        with pytest.raises(synapse.NotFound):
            mem.tell("eng-backend", "x", re="syn-2001-01-01-001")
        mem.register(synapse.Agent("frontend"))
        with pytest.raises(synapse.InvalidEntry, match="agent:frontend or team:front"):
            mem.tell("frontend", "x")


def test_a_question_is_open_until_it_is_answered(wrote, team, run):
    done = run(
        "write",
        "--from",
        "eng-backend",
        "--namespace",
        "status/x",
        "--to",
        "operator",
        "which login?",
    )
    first = done.out.strip()
    assert done.err == ""
    second = wrote("and which key?", "--to", "operator")
    other = wrote("the build is broken", "--priority", "critical")
    with synapse.open(str(team)) as mem:
        assert [entry.id for entry in mem.questions()] == [first, second]
        answer = mem.tell("eng-backend", "the old one", re=first).id
        assert [entry.id for entry in mem.questions()] == [second]
        assert mem.as_agent("eng-backend").get(answer).related == (first,)
        mem.tell("eng-backend", "I know", re=other)
        assert mem.as_agent("eng-backend").fate(other) is None
    assert f"operator resolved {first}: answered in {answer}" in run("log").out


def test_a_question_may_be_withdrawn(wrote, team, run):
    id = wrote("which?", "--to", "operator")
    run("resolve", "--from", "eng-backend", id)
    with synapse.open(str(team)) as mem:
        assert mem.questions() == []


def test_ack(wrote, team, run):
    id = wrote("read this", "--to", "agent:eng-frontend")
    done = run("ack", "--from", "eng-frontend", id)
    assert (done.code, "was not delivered to eng-frontend" in done.err) == (3, True)
    with synapse.open(str(team)) as mem:
        mem.as_agent("eng-frontend").writer.delivery("rendered", [id], "spawn")
        done = run("ack", "--from", "eng-frontend", id)
        assert (done.code, done.out) == (0, f"acknowledged {id}\n")
        mem.store.index.catch_up()
        assert mem.store.index.current.deliveries(entry=id, limit=1)[0]["state"] == "acked"
    assert f"eng-frontend acknowledged {id}" in run("audit", "--entry", id).out


@pytest.fixture
def acts(team):
    """Runs, claims and deliveries, as the orchestrator writes them."""
    with synapse.open(str(team)) as mem:

        def keep(**fields):
            mem.store.commit.append(
                Record.new("run", "eng-backend", {"run": "r", **fields}, key="run:r")
            )

        keep(epoch=1, state="running", agent="eng-backend", project="p", task="a secret task")
        me = mem.as_agent("eng-backend", run="r", epoch=1)
        id = me.append("x", "api/x").id
        me.claim("The Login", note="half done")
        me.release("the login")
        me.writer.delivery("offered", [id], "wake")
        me.writer.delivery("rendered", [id], "wake")
        mem.store.commit.append(
            Record.new("stop", "operator", {"run": "r", "reason": "too dear"}, key="stop:r")
        )
        keep(epoch=2, state="running", holder="h")
        with pytest.raises(synapse.Conflict):
            me.append("late", "api/x")
        keep(epoch=2, state="ended", status="stopped", summary="a secret summary")
        with pytest.raises(synapse.Conflict):
            mem.as_agent("eng-backend", run="r", epoch=2).append("later", "api/x")
    return id


def test_audit_and_log_read_well(acts, run):
    told = [line[28:] for line in run("audit", "--agent", "eng-backend").out.splitlines()]
    assert [line.partition(" until ")[0] for line in told] == [
        "eng-backend began run r for p",
        f"eng-backend wrote {acts} api/x",
        "eng-backend claimed 'the login'",
        "eng-backend gave back 'the login'",
        f"eng-backend was offered {acts} in run r",
        f"eng-backend was woken by {acts} in run r",
        "eng-backend goes on with run r as epoch 2",
        "eng-backend was refused (entry in api/x) as epoch 1 of run r, which is at epoch 2",
        "eng-backend ended run r: stopped",
        "eng-backend was refused (entry in api/x) as epoch 2 of run r, which has ended",
    ]
    assert told[2].endswith("Z: half done")
    log = run("log", "--agent", "eng-frontend").out
    assert "operator wants run r to stop: too dear" in log
    assert "claimed 'the login'" not in log  # what others work at is theirs
    assert "offered" not in log
    assert "secret" not in log + run("log", "--agent", "eng-frontend", "--json").out


def test_the_log_tells_who_was_given_and_woken_by_what(team, run):
    """Each reader of what it may see; in compact form where there is much."""
    with synapse.open(str(team)) as mem:
        author = mem.as_agent("pl-brain")
        public = [
            author.append(f"public {place}", "api/x", priority="important").id for place in range(7)
        ]
        secret = author.append("secret", "api/x", to="agent:eng-backend", priority="critical").id
        about = {"cursor": 1, "how": "spawn", "run": "r", "epoch": 1}
        mem.store.commit.append(
            Record.new("shown", "eng-backend", {**about, "ids": [public[0], secret]})
        )
        mem.store.commit.append(
            Record.new("shown", "eng-backend", {**about, "run": "s", "ids": public})
        )
        woken = {
            "agent": "eng-backend",
            "run": "r",
            "epoch": 1,
            "state": "rendered",
            "ids": [secret],
        }
        mem.store.commit.append(Record.new("delivery", "eng-backend", woken))
        mem.store.commit.append(Record.new("delivery", "eng-backend", {**woken, "state": "acked"}))
        run_nightly(mem, "2026-02-01", mem.store.clock())
    backend = run("log", "--agent", "eng-backend").out
    assert f"eng-backend was given {public[0]}, {secret} at the start of run r" in backend
    assert "eng-backend was given 7 entries at the start of run s" in backend
    assert f"eng-backend was woken by {secret} in run r" in backend
    assert "acknowledged" not in backend, "nobody said so: it finished a turn"
    frontend = run("log", "--agent", "eng-frontend").out
    assert f"eng-backend was given {public[0]} at the start of run r" in frontend
    assert "woken" not in frontend
    assert secret not in frontend
    with open(f"{team}/changelog/{sorted(os.listdir(f'{team}/changelog'))[-1]}") as file:
        page = file.read()
    assert f"eng-backend was woken by {secret} in run r" in page
    assert "was given 7 entries" in page
    assert "secret" not in page
