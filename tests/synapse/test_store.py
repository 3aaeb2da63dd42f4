"""What all seats share: the operator's files and what becomes of them, drops, and threads that use
one memory.
"""

import fcntl
import os
import shutil
import sqlite3
import time
from contextlib import ExitStack, closing, nullcontext

import pytest

import synapse
from synapse import Forbidden, InvalidEntry, NotFound
from synapse.errors import StoreBusy
from synapse.hurry import hurried, is_free, peek
from synapse.model.agents import Agent
from synapse.search import pages
from synapse.testing import FrozenClock, together


@pytest.fixture
def root(tmp_path):
    return tmp_path / "shared-memory"


@pytest.fixture
def mem(root):
    with synapse.init(str(root)) as mem:
        mem.register(Agent("eng-a", department="backend", read=("api/*",), write=("api/*",)))
        mem.register(Agent("lead", role="cto"))
        yield mem


def edit(root, path, text):
    """As an editor does: at once, under the same name."""
    fresh = root / f"{path}.new"
    fresh.write_text(text, encoding="utf-8")
    os.replace(fresh, root / path)


def changes(mem, id):
    mem.store.refresh(whole=True)
    return [
        act
        for act in reversed(mem.audit())
        if act.kind == "agent" and act.fields["agent"]["id"] == id
    ]


# -- the operator's files --------------------------------------------------------------


def test_an_edit_by_hand_is_noticed_and_journalled_with_old_and_new_values(mem, root):
    text = (root / "agents/eng-a.yaml").read_text(encoding="utf-8")
    edit(root, "agents/eng-a.yaml", text.replace("authority: 60", "authority: 35"))
    last = changes(mem, "eng-a")[-1]
    assert (last.by, last.fields["how"]) == ("operator", "edited")
    assert (last.fields["was"]["authority"], last.fields["agent"]["authority"]) == (60, 35)
    assert mem.as_agent("eng-a").append("text", "api/x").authority == 35
    assert len(changes(mem, "eng-a")) == 2
    assert mem.verify().ok


def test_an_edit_that_changes_no_value_changes_no_right(mem, root):
    text = (root / "agents/eng-a.yaml").read_text(encoding="utf-8")
    edit(root, "agents/eng-a.yaml", "# a comment\n" + text)
    last = changes(mem, "eng-a")[-1]
    assert last.fields["agent"] == changes(mem, "eng-a")[0].fields["agent"]
    assert mem.verify().ok


def test_an_agent_s_file_may_come_and_go(mem, root):
    edit(
        root,
        "agents/new.yaml",
        "agent:\n  id: new\n  role: specialist\nsubscriptions:\n  write: [api/*]\n",
    )
    assert [
        (act.fields["how"], act.fields["agent"]["authority"]) for act in changes(mem, "new")
    ] == [("registered", 40)]
    agent_memory = mem.as_agent("new")
    agent_memory.append("text", "api/x")
    (root / "agents/new.yaml").unlink()
    assert [act.fields["how"] for act in changes(mem, "new")] == ["registered", "removed"]
    for act in (agent_memory.read, lambda: agent_memory.append("more", "api/x")):
        with pytest.raises(NotFound):
            act()
    assert [agent.id for agent in mem.agents()] == ["eng-a", "lead"]
    assert [entry.body for entry in mem.as_agent("lead").read()] == ["text"]
    edit(root, "agents/new.yaml", "agent:\n  id: new\n")
    assert [act.fields["how"] for act in changes(mem, "new")] == [
        "registered",
        "removed",
        "registered",
    ]


def test_whoever_was_removed_acts_no_more_though_others_were_declared_later(mem, root):
    agent_memory = mem.as_agent("eng-a")
    # the first of two: the last one declared stays
    (root / "agents/eng-a.yaml").unlink()
    assert [act.fields["how"] for act in changes(mem, "eng-a")] == ["registered", "removed"]
    for act in (agent_memory.read, lambda: agent_memory.append("more", "api/x")):
        with pytest.raises(NotFound):
            act()
    assert [agent.id for agent in mem.agents()] == ["lead"]


def test_whoever_was_removed_is_gone_for_a_new_process_at_once(mem, root):
    mem.store.refresh(whole=True)
    (root / "agents/eng-a.yaml").unlink()
    with synapse.open(str(root)) as other, pytest.raises(NotFound):
        other.as_agent("eng-a").append("more", "api/x")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "agent: [",
        "agent:\n  id: other\n",
        "agent:\n  id: eng-a\n  authority: 900\n",
        "a: &x 1\nb: *x\n",
        "\x00",
    ],
)
def test_the_last_good_declaration_stands(mem, root, text):
    edit(root, "agents/eng-a.yaml", text)
    assert len(changes(mem, "eng-a")) == 1
    assert mem.as_agent("eng-a").append("text", "api/x").authority == 60
    assert not mem.verify().ok


def test_an_edit_is_noticed_by_whoever_comes_first(mem, root):
    text = (root / "agents/eng-a.yaml").read_text(encoding="utf-8")
    edit(root, "agents/eng-a.yaml", text.replace("api/*", "team/*"))
    with synapse.open(str(root)) as other:
        with pytest.raises(Forbidden):
            other.as_agent("eng-a").append("text", "api/x")
        other.as_agent("eng-a").append("text", "team/x")
    time.sleep(0.21)
    with pytest.raises(Forbidden):
        mem.as_agent("eng-a").append("text", "api/x")
    assert len(changes(mem, "eng-a")) == 2


def test_what_another_process_declares_is_known_here(mem, root):
    with synapse.open(str(root)) as other:
        other.register(Agent("new", read=("*",)))
        other.as_agent("lead").append("text", "api/x")
    assert [entry.body for entry in mem.as_agent("new").read()] == ["text"]


def test_new_settings_count_at_once(mem, root):
    me = mem.as_agent("eng-a")
    assert me.append("text", "api/x").ttl == "30d"
    text = (root / "synapse.yaml").read_text(encoding="utf-8")
    edit(
        root,
        "synapse.yaml",
        text.replace("api/*: 30d", "api/*: 5d").replace("authority: roles", "authority: flat"),
    )
    mem.store.refresh(whole=True)
    entry = me.append("text", "api/x")
    assert (entry.ttl, mem.as_agent("lead").append("text", "api/x").authority) == ("5d", 100)
    with synapse.open(str(root)) as other:
        assert other.store.settings == mem.store.settings
        assert other.as_agent("eng-a").append("text", "api/x").ttl == "5d"


def test_settings_of_a_newer_version_stop_everything(mem, root):
    edit(root, "synapse.yaml", "protocol: 9\n")
    with pytest.raises(synapse.NewerProtocol, match="upgrade"):
        mem.store.refresh(whole=True)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("ttl: [\n", "line 2"),
        ("protocol: 1\nreputation: maybe\nttl: {api/*: 5d}\n", "reputation 'maybe' is not valid"),
        (
            "protocol: 1\nsemantic: {embedder: word2vec}\nttl: {api/*: 5d}\n",
            "semantic: embedder 'word2vec'",
        ),
        (
            "protocol: 1\nlimit: {run: {usd: 1}}\nttl: {api/*: 5d}\n",
            "limit is not known: did you mean limits?",
        ),
    ],
)
def test_settings_with_a_mistake_stop_nobody_and_are_said(mem, root, text, complaint):
    """The rest of them counts, and what cannot be read is as it was."""
    good = (root / "synapse.yaml").read_text(encoding="utf-8")
    edit(root, "synapse.yaml", good.replace("api/*: 30d", "api/*: 5d") + "reputation: off\n")
    mem.store.refresh(whole=True)
    edit(root, "synapse.yaml", text)
    mem.store.refresh(whole=True)
    assert mem.as_agent("eng-a").append("text", "api/x").ttl == "5d"
    assert mem.store.settings.reputation in (
        "off",
        "report" if "reputation" not in text and "[" not in text else "off",
    )
    (said,) = mem.store.operator_files.complaints["synapse.yaml"]
    assert complaint in said
    with synapse.open(str(root)) as other:
        assert other.store.operator_files.complaints == mem.store.operator_files.complaints
        assert [entry.body for entry in other.as_agent("eng-a").read()] == ["text"]
    copy = shutil.copytree(root, root.parent / "copy", ignore=shutil.ignore_patterns(".index"))
    with synapse.open(str(copy)) as fresh:
        assert [entry.body for entry in fresh.as_agent("eng-a").read()] == ["text"]
    edit(root, "synapse.yaml", good)
    mem.store.refresh(whole=True)
    assert mem.store.operator_files.complaints == {}


def test_an_agents_file_with_a_mistake_is_not_taken_and_is_said(mem, root):
    good = (root / "agents/eng-a.yaml").read_text(encoding="utf-8")
    edit(root, "agents/eng-a.yaml", good.replace("read:", "reed:"))
    (root / "agents/new.yaml").write_text("agent: {id: new, rol: cto}\n", encoding="utf-8")
    mem.store.refresh(whole=True)
    assert mem.store.agents.all()["eng-a"].read == ("api/*",), "what was declared before holds"
    assert "did you mean read?" in mem.store.operator_files.complaints["agents/eng-a.yaml"][0]
    with pytest.raises(
        NotFound, match=r"agents/new\.yaml: agent\.rol is not known: did you mean role\?"
    ):
        mem.as_agent("new").read()
    edit(root, "agents/eng-a.yaml", good)
    os.remove(root / "agents/new.yaml")
    mem.store.refresh(whole=True)
    assert mem.store.operator_files.complaints == {}


def test_files_of_agents_share_a_sync(mem, root, monkeypatch):
    for number in range(50):
        (root / f"agents/new-{number}.yaml").write_text(
            f"agent: {{id: new-{number}, role: {'rolle' if number == 7 else 'cto'}}}\n",
            encoding="utf-8",
        )
    (root / "agents/new-8.yaml").write_text("agent: [", encoding="utf-8")
    os.remove(root / "agents/lead.yaml")
    syncs, sync, last = [], os.fdatasync, mem.store.log.last()
    monkeypatch.setattr(os, "fdatasync", lambda fd: (syncs.append(fd), sync(fd)))
    mem.store.refresh(whole=True)
    agents = mem.store.agents.all()
    assert len([id for id in agents if id.startswith("new-")]) == 49
    assert "new-8" not in agents
    assert "lead" not in agents
    assert len(syncs) == 1
    assert mem.store.log.last() == last + 50
    mem.store.refresh(whole=True)
    assert mem.store.log.last() == last + 50


def test_who_is_not_there_may_be_meant_otherwise(mem):
    with pytest.raises(NotFound, match="did you mean eng-a") as caught:
        mem.as_agent("eng_a").read()
    assert "synapse register" not in str(caught.value), "nobody registers a misspelt name"
    with pytest.raises(NotFound, match="register --id bob --role engineer"):
        mem.as_agent("bob").read()
    with pytest.raises(NotFound, match="did you mean lead"):
        mem.tell("leed", "stop")


@pytest.mark.parametrize(
    ("role", "meant"),
    [
        ("CTO", "cto"),
        ("project_lead", "project-lead"),
        ("lead", "project-lead"),
        ("enginer", "engineer"),
    ],
)
def test_a_role_that_there_is_none_of_is_an_error(mem, role, meant):
    with pytest.raises(InvalidEntry, match=f"there is no role {role!r}: did you mean {meant}"):
        mem.register(Agent("new", role=role))
    assert "new" not in mem.store.agents.all()


def test_a_role_of_ones_own(mem, root):
    with pytest.raises(InvalidEntry, match=r"prompts/ROLE\.md\.j2"):
        mem.register(Agent("new", role="poet"))
    assert (
        mem.register(Agent("free", role="poet", read=("*",), write=(), authority=7)).authority == 7
    )
    (root / "prompts").mkdir()
    (root / "prompts" / "poet.md.j2").write_text("Write.\n", encoding="utf-8")
    assert mem.register(Agent("new", role="poet")).authority == 60
    (root / "agents/old.yaml").write_text("agent: {id: old, role: wizard}\n", encoding="utf-8")
    mem.store.refresh(whole=True)
    assert mem.store.agents.all()["old"].authority == 60, (
        "a file with a role of another time goes on working"
    )
    assert mem.register(Agent("old", role="wizard", department="x")).role == "wizard"


# -- drops -----------------------------------------------------------------------------


def drop(root, path, **fields):
    """A finished file: its last change lies back far enough."""
    fields = {"from": "eng-a", "timestamp": "2026-02-01T09:00:00Z", "priority": "info"} | fields
    body = fields.pop("body", "dropped")
    text = "".join(f"{name}: {value}\n" for name, value in fields.items())
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(f"---\n{text}---\n\n{body}\n", encoding="utf-8")
    time.sleep(0.25)


def test_a_drop_s_trust_is_that_of_what_it_is_made_of(mem, root):
    doubtful = mem.as_agent("lead").append("made", "api/x")
    mem.store.commit.append(
        synapse.model.records.Record.new(
            "entry", "eng-a", {}, doubtful._replace(id="", trust="unverified", body="doubtful")
        )
    )
    source = next(entry for entry in mem.as_agent("lead").read() if entry.body == "doubtful")
    drop(
        root,
        "entries/api/x/mine.md",
        id="syn-mine",
        namespace="api/x",
        derived_from=f"[{source.id}]",
    )
    mem.store.refresh(whole=True)
    assert mem.as_agent("lead").get("syn-mine").trust == "unverified"


def test_dropped_work_of_a_reviewed_agent_waits_too_and_only_so_much_of_it(mem, root):
    mem.register(Agent("junior", read=("api/*",), write=("api/*",), review_required=True))
    text = (root / "synapse.yaml").read_text(encoding="utf-8")
    edit(root, "synapse.yaml", text.replace("limit: 100", "limit: 2"))
    for n in range(3):
        drop(
            root, f"inbox/junior/new/{n}.md", id=f"syn-{n}", namespace="api/x", **{"from": "junior"}
        )
    mem.store.refresh(whole=True)
    lead = mem.as_agent("lead")
    assert len(lead.staged()) == 2
    assert len(os.listdir(root / "inbox/junior/new")) == 1
    with pytest.raises(synapse.QueueFull):
        mem.as_agent("junior").append("text", "api/x")
    lead.approve(lead.staged()[0].id)
    mem.store.refresh(whole=True)
    assert len(lead.staged()) == 2
    assert os.listdir(root / "inbox/junior/new") == []
    assert mem.verify().ok


def test_a_drop_is_taken_by_a_process_that_has_read_nothing_yet(tmp_path):
    root = tmp_path / "fresh"
    with synapse.init(str(root)) as mem:
        mem.register(Agent("eng-a", read=("api/*",), write=("api/*",)))
    drop(root, "inbox/eng-a/new/one.md", namespace="api/x")
    with synapse.open(str(root)) as mem:
        assert [entry.author for entry in mem.as_agent("operator").read()] == ["eng-a"]
    assert os.listdir(root / "quarantine") == []


# -- threads ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["files", "memory"])
def test_threads_may_share_a_memory(tmp_path, kind):
    """Each read shows all that was acknowledged before it began, also in namespaces that are new."""
    mem = synapse.init(str(tmp_path / "w")) if kind == "files" else synapse.open("memory:")
    with mem:
        for n in range(3):
            mem.register(Agent(f"w{n}", read=("*",), write=("*",)))
        mem.register(Agent("reader", read=("*",)))
        written = []

        def write(n):
            agent_memory = mem.as_agent(f"w{n}")
            for turn in range(40):
                entry = agent_memory.append(
                    f"body {n} {turn}",
                    f"space-{n}/turn-{turn}",
                    topic="t" if turn % 5 == 0 else None,
                )
                written.append(entry.id)
                agent_memory.get(entry.id)
            return n

        def read():
            me, checks = mem.as_agent("reader"), 0
            until = time.monotonic() + 30
            while len(written) < 120 and time.monotonic() < until:
                before = list(written)
                page = me.read()
                missing = set(before) - {entry.id for entry in page}
                assert not missing, (len(missing), page.cursor)
                assert me.unread() >= len(before)
                assert [hit.id for hit in me.search("body", limit=1)] or not before
                checks += 1
            return checks

        found = together(*(lambda n=n: write(n) for n in range(3)), read, read, read)
        assert found[:3] == [0, 1, 2], found
        assert all(isinstance(each, int) for each in found), found
        assert mem.as_agent("reader").unread() == 120
        digest = mem.digest()
        assert mem.rebuild().digest == digest


def test_a_page_goes_no_further_than_it_knows(tmp_path):
    """Another process writes into a new namespace between a reader's look and its page."""
    root = str(tmp_path / "w")
    with synapse.init(root) as mem, synapse.open(root) as other:
        mem.register(Agent("eng-a", read=("*",), write=("*",)))
        me = mem.as_agent("eng-a")
        me.append("one", "api/x")
        assert len(me.read()) == 1
        other.as_agent("eng-a").append("two", "new/space")
        other.store.refresh()
        page, _ = pages.page(
            mem.store,
            me.agent,
            mem.store.index.current,
            mem.store.clock(),
            None,
            (),
            (),
            None,
            None,
            None,
            False,
        )
        later = {
            event.entry.body for event in mem.as_agent("operator").follow(page.cursor, timeout=0)
        }
        assert {entry.body for entry in page} | later >= {"one", "two"}
        assert {entry.body for entry in me.read()} == {"one", "two"}


def test_a_memory_in_memory_needs_no_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    clock = FrozenClock()
    with synapse.open("memory:", clock=clock) as mem:
        mem.register(Agent("eng-a", role="cto"))
        assert mem.as_agent("eng-a").append("text", "api/x").at >= clock()
    assert os.listdir(tmp_path) == []


def test_changed_settings_are_journalled_with_old_and_new_values(mem, root):
    mem.store.refresh(whole=True)
    edit(root, "synapse.yaml", "protocol: 1\nttl:\n  api/*: 5d\n")
    assert [problem.where for problem in mem.verify().problems] == ["synapse.yaml"]
    mem.store.refresh(whole=True)
    act = next(record for record in mem.audit() if record.kind == "settings")
    assert (act.by, act.fields["settings"]["ttl"]) == ("operator", [["api/*", "5d"]])
    assert act.fields["was"]["ttl"] != act.fields["settings"]["ttl"]
    assert mem.verify().ok


def hurry(mem):
    with hurried(mem.store, 0.01):
        mem.as_agent("eng-a").append("in a hurry", "api/x")
        mem.store.refresh()


@pytest.mark.parametrize("kind", ["log", "index's lock", "index"])
def test_who_is_in_a_hurry_waits_for_no_holder_and_may_still_read(mem, root, kind):
    mem.as_agent("eng-a").append("before", "api/x")
    paths = {"log": "journal/lock", "index's lock": ".index/brain.db.lock"}
    assert is_free(mem.store)
    with synapse.open(root) as other:
        other.as_agent("eng-a").append("while nobody looked", "api/x")
        with ExitStack() as held:
            if kind == "index":
                index = sqlite3.connect(root / ".index/brain.db", isolation_level=None)
                held.enter_context(closing(index)).execute("begin exclusive")
            else:
                fcntl.flock(held.enter_context(open(root / paths[kind], "a")), fcntl.LOCK_EX)
            assert not is_free(mem.store)
            with pytest.raises(StoreBusy) if kind == "log" else nullcontext():
                hurry(mem)  # only who writes needs the log, and nobody the index
            with peek(root) as mine:
                bodies = {entry.body for entry in mine.as_agent("eng-a").read()}
                assert bodies >= {"before", "while nobody looked"}
                with pytest.raises(synapse.errors.ReadOnly, match="reading alone"):
                    mine.as_agent("eng-a").append("text", "api/x")
    end = time.monotonic() + 30
    while not is_free(mem.store):  # who waited in vain lets go of it first
        assert time.monotonic() < end


def test_a_snapshot_takes_in_the_journal_and_a_refresh_the_files(mem, root):
    """What another process committed needs no refresh, and what was dropped nothing else."""
    store = mem.store
    store.refresh(whole=True)
    fields = {"id": "syn-2026-02-01-900", "from": "lead", "timestamp": "2026-02-01T09:00:00Z"}
    drop(root, "entries/api/x/mine.md", **fields, priority="info", namespace="api/x")
    with synapse.open(str(root)) as other:
        other.store._looked = time.monotonic() + 60  # it does not adopt the file
        appended = other.as_agent("lead").append("appended", "api/x")
    with store.snapshot(late=True) as snap:
        assert snap.entry(appended.id, 0) is None
    with store.snapshot() as snap:
        assert [entry.body for entry in snap.all(0)] == ["appended"]
        store.refresh(whole=True)  # inside of a snapshot it does nothing
    with store.snapshot() as snap:
        assert [entry.body for entry in snap.all(0)] == ["appended"]
    store.refresh(whole=True)
    with store.snapshot(late=True) as snap:
        assert [entry.body for entry in snap.all(0)] == ["appended", "dropped"]
