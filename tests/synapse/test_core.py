import os

import pytest

import synapse
from synapse import Forbidden, InvalidEntry, InvalidQuery, NewerProtocol, NotFound, StoreError
from synapse.model.agents import Agent
from synapse.model.settings import PROTOCOL


@pytest.fixture
def root(tmp_path):
    return tmp_path / "shared-memory"


@pytest.fixture
def mem(root, clock):
    with synapse.init(str(root), clock=clock) as mem:
        mem.register(Agent("eng-a", read=("api/*",), write=("api/*",)))
        mem.register(Agent("lead", role="cto"))
        yield mem


def tree(root):
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


# -- opening ---------------------------------------------------------------------------


def test_open_never_creates(tmp_path):
    for address in (tmp_path / "nowhere", tmp_path, tmp_path / "a/b"):
        with pytest.raises(NotFound, match="synapse init"):
            synapse.open(str(address))
    (tmp_path / "file").write_text("text")
    with pytest.raises((NotFound, StoreError)):
        synapse.open(str(tmp_path / "file"))
    with pytest.raises(StoreError, match="neither"):
        synapse.open("gopher://memory")
    assert tree(tmp_path) == ["file"]


def test_init_leaves_what_is_there(mem, root, clock):
    (root / "synapse.yaml").write_text("protocol: 1\nname: mine\n", encoding="utf-8")
    entry = mem.as_agent("eng-a").append("text", "api/x")
    with synapse.init(str(root), clock=clock) as again:
        assert again.store.settings.name == "mine"
        assert again.as_agent("eng-a").get(entry.id).body == "text"


def test_init_makes_the_way_to_it(tmp_path):
    with synapse.init(str(tmp_path / "a/b/c")) as mem:
        assert mem.verify().ok
    (tmp_path / "file").write_text("text")
    for place in ("file", "file/below"):
        with pytest.raises(StoreError, match="cannot be made"):
            synapse.init(str(tmp_path / place))


def test_home_is_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    synapse.init("~/team").close()
    with synapse.open("~/team") as mem:
        assert mem.store.root == str(tmp_path / "team")


@pytest.mark.parametrize("protocol", ["", f"protocol: {PROTOCOL - 1}\n", "protocol: synapse\n"])
def test_a_workspace_of_the_version_before_opens(mem, root, protocol, clock):
    mem.as_agent("eng-a").append("text", "api/x")
    text = (root / "synapse.yaml").read_text(encoding="utf-8")
    (root / "synapse.yaml").write_text(text.replace("protocol: 1\n", protocol), encoding="utf-8")
    with synapse.open(str(root), clock=clock) as older:
        assert [entry.body for entry in older.as_agent("eng-a").read()] == ["text"]
        older.as_agent("eng-a").append("more", "api/x")
        assert older.verify().ok


def test_a_workspace_without_settings_opens(mem, root, clock):
    (root / "synapse.yaml").unlink()
    with synapse.open(str(root), clock=clock) as mem:
        mem.as_agent("eng-a").append("text", "api/x")


def test_a_workspace_of_a_newer_version_is_refused_untouched(mem, root):
    mem.as_agent("eng-a").append("text", "api/x")
    mem.close()
    text = (root / "synapse.yaml").read_text(encoding="utf-8")
    (root / "synapse.yaml").write_text(
        text.replace("protocol: 1", f"protocol: {PROTOCOL + 1}"), encoding="utf-8"
    )
    before = {path: os.stat(root / path).st_mtime_ns for path in tree(root)}
    with pytest.raises(NewerProtocol, match="upgrade"):
        synapse.open(str(root))
    assert {path: os.stat(root / path).st_mtime_ns for path in tree(root)} == before


def test_closing_twice_is_closing(mem):
    mem.close()
    mem.close()


# -- agents ----------------------------------------------------------------------------


def test_register_fills_in_the_role_and_writes_once(mem, root):
    agent = Agent("new", role="specialist", department="ops")
    found = mem.register(agent)
    assert (found.authority, found.write) == (40, ("status/*", "blockers/*"))
    before = mem.store.log.mark()
    assert mem.register(agent) == found
    assert mem.store.log.mark() == before
    assert (root / "agents/new.yaml").exists()
    for wrong in (Agent("operator"), Agent("../x"), Agent("a", authority=101)):
        with pytest.raises(InvalidEntry):
            mem.register(wrong)
    assert [each.id for each in mem.agents()] == ["eng-a", "lead", "new"]


def test_a_seat_is_one_and_nobody_s_is_none(mem):
    assert mem.as_agent("eng-a") is mem.as_agent("eng-a")
    assert mem.as_agent("operator").id == "operator"
    for wrong in ("nobody", "", "../eng-a", "consolidator"):
        with pytest.raises(NotFound):
            mem.as_agent(wrong)


def test_last_seen(mem, clock):
    assert "eng-a" not in mem.last_seen()
    at = mem.as_agent("eng-a").append("text", "api/x").at
    clock.advance("1h")
    mem.as_agent("lead").read(mark=True)
    seen = mem.last_seen()
    assert seen["eng-a"] == at
    assert seen["lead"] == clock()


def test_a_run_acts_as_its_agent_alone(mem, monkeypatch):
    monkeypatch.setenv("SYNAPSE_RUN", "run-7")
    monkeypatch.setenv("SYNAPSE_AGENT", "eng-a")
    assert mem.as_agent("eng-a").append("text", "api/x").author == "eng-a"
    for act in (
        lambda: mem.as_agent("lead"),
        lambda: mem.as_agent("operator"),
        lambda: mem.register(Agent("new")),
        mem.audit,
        mem.repair,
        lambda: [*mem.export()],
        lambda: mem.import_([]),
    ):
        with pytest.raises(Forbidden, match="run-7"):
            act()
    monkeypatch.delenv("SYNAPSE_AGENT")
    with pytest.raises(Forbidden):
        mem.as_agent("eng-a")


# -- the log ---------------------------------------------------------------------------


def test_audit_says_who_did_what(mem, clock):
    me = mem.as_agent("eng-a")
    entry = me.append("text", "api/x")
    clock.advance("2h")
    mem.as_agent("lead").resolve(entry.id, note="done")
    me.read(mark=True)
    kinds = [act.kind for act in mem.audit()]
    assert kinds == ["shown", "resolve", "entry", "agent", "agent"]
    assert [act.kind for act in mem.audit(entry=entry.id)] == ["resolve", "entry"]
    assert [act.kind for act in mem.audit(agent="eng-a")] == ["shown", "entry"]
    assert [act.kind for act in mem.audit(since="1h")] == ["shown", "resolve"]
    assert [act.kind for act in mem.audit(limit=1)] == ["shown"]
    assert mem.audit(entry="syn-none") == mem.audit(agent="nobody") == []
    with pytest.raises(InvalidQuery):
        mem.audit(since="soon")


def test_verify_repair_rebuild(mem, root):
    entry = mem.as_agent("eng-a").append("text", "api/x")
    report = mem.verify()
    assert (report.ok, report.records, report.problems) == (True, 3, ())
    assert mem.verify(report.head).ok
    path = root / f"entries/api/x/{entry.id}.md"
    path.write_text("forged", encoding="utf-8")
    assert [problem.where for problem in mem.verify().problems] == [f"entries/api/x/{entry.id}.md"]
    assert mem.as_agent("lead").get(entry.id).body == "text"
    assert mem.repair().ok
    assert "text" in path.read_text(encoding="utf-8")
    assert mem.audit()[0].kind == "repair"
    digest = mem.digest()
    done = mem.rebuild()
    assert (done.records, done.digest) == (4, digest)
    before = mem.store.log.mark()
    assert mem.repair().ok
    assert mem.store.log.mark() == before


def test_the_index_may_be_deleted_at_any_time(mem, root, clock):
    mem.as_agent("eng-a").append("text", "api/x", once="key")
    mem.as_agent("lead").read(mark=True)
    digest = mem.digest()
    mem.close()
    for path in (root / ".index").glob("brain.db*"):
        path.unlink()
    with synapse.open(str(root), clock=clock) as again:
        assert again.digest() == digest
        assert again.as_agent("lead").unread() == 0
        assert again.as_agent("eng-a").append("again", "api/x", once="key").body == "text"
        assert len(again.as_agent("eng-a").read()) == 1


def test_a_memory_has_few_public_methods():
    names = [name for name in vars(synapse.Memory) if not name.startswith("_")]
    assert len(names) <= 14


@pytest.mark.parametrize("rights", ["read", "write"])
def test_an_agent_with_too_many_patterns_is_not_registered(mem, rights):
    globs = [f"api/n{number}" for number in range(201)]
    with pytest.raises(InvalidEntry, match="201 patterns"):
        mem.register(Agent("eng", **{rights: globs}))
    mem.register(Agent("eng", **{"read": ["api/*"], "write": ["api/*"], rights: globs[:200]}))
    me = mem.as_agent("eng")
    me.append("use /v2", "api/n1")
    assert len(mem.as_agent("operator").read(namespace=globs[:200])) == 1
    for ask in (me.read, lambda namespace: me.search("use", namespace=namespace)):
        with pytest.raises(InvalidEntry, match="201 patterns"):
            ask(namespace=globs)
