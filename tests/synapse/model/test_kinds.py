import copy
import os
import pickle
from types import SimpleNamespace

import pytest

import synapse
from synapse import Conflict, Forbidden, InvalidEntry
from synapse.formats import codec
from synapse.integrity import conformance
from synapse.model import kinds
from synapse.model.agents import Agent
from synapse.model.clock import now
from synapse.model.entry import Draft, addressees
from synapse.model.settings import Settings
from synapse.testing import FrozenClock, together

THREAD = kinds.new_thread(bytes(range(16)))
OTHER = kinds.new_thread(bytes(range(1, 17)))
ATOM = {
    "subject": "the cache",
    "action": "was emptied",
    "outcome": "slow",
    "consequences": "calls",
    "confidence": 0.5,
}


def number(n):
    return n.to_bytes(6, "big")


def message(n, to="all", thread=THREAD, priority="info", **more):
    own = kinds.More(
        {"thread": thread, **{name: value for name, value in more.items() if name != "replaces"}}
    )
    return Draft(
        f"said {n}", "mail", "", priority, addressees=addressees(to), replaces=more.get("replaces", ()),
        id=kinds.new_id("message", number(n)), kind="message", more=own,
    )  # fmt: skip


def fact(n, namespace, kind="fact", **more):
    return Draft(
        f"known {n}",
        namespace,
        "",
        id=kinds.new_id(kind, number(n)),
        kind=kind,
        more=kinds.More(more),
    )


@pytest.fixture(params=["memory", "files"])
def mem(request, tmp_path):
    moment = FrozenClock(now() - 3_600_000_000)
    root = str(tmp_path / "w")
    with (
        synapse.init(root, clock=moment)
        if request.param == "files"
        else synapse.open("memory:", clock=moment) as mem
    ):
        yield peopled(mem)


@pytest.fixture
def tree(tmp_path):
    with synapse.init(str(tmp_path / "w"), clock=FrozenClock(now() - 3_600_000_000)) as mem:
        yield peopled(mem)


def peopled(mem):
    mem.register(Agent("eng-a", department="backend", read=("api/*",), write=("api/*",)))
    mem.register(Agent("eng-b", department="backend", read=("api/*",), write=("api/*",)))
    mem.register(Agent("eng-c", department="frontend", read=(), write=()))
    mem.register(Agent("lead", role="project-lead", read=("api/*",), write=("*",)))
    return mem


def path(mem, *parts):
    return os.path.join(mem.store.root, *parts)


# -- values ----------------------------------------------------------------------------


def test_ids_say_what_they_are_of():
    ids = {kind: kinds.new_id(kind, number(7)) for kind in ("message", "fact", "atom")}
    assert ids == {
        "message": "syn_000000000007",
        "fact": "fact_000000000007",
        "atom": "atom_000000000007",
    }
    assert {id: kinds.kind_of(id) for id in ids.values()} == {id: kind for kind, id in ids.items()}
    assert kinds.kind_of("syn-2026-02-01-001") == "entry"
    assert all(map(kinds.is_id, (*ids.values(), "syn-2026-02-01-001")))
    for wrong in (
        "",
        "syn",
        "syn_",
        "syn_00000000000G",
        "syn_0000000000007",
        "thing_000000000007",
        "fact-1",
        THREAD,
    ):
        assert kinds.kind_of(wrong) is None
        assert not kinds.is_id(wrong)


def test_a_thread_is_a_uuid_of_the_random_kind():
    assert THREAD == "thr_00010203-0405-4607-8809-0a0b0c0d0e0f"
    assert kinds.is_thread(THREAD)
    for wrong in (
        "",
        "thr_",
        THREAD[4:],
        THREAD.upper(),
        THREAD + "0",
        "thr_../../x",
        THREAD.replace("-", ""),
    ):
        assert not kinds.is_thread(wrong)


def test_the_fields_of_a_kind_never_change():
    more = kinds.frozen({"a": [1, {"b": [2]}], "c": {}})
    assert more == {"a": (1, {"b": (2,)}), "c": {}}
    assert hash(more) == hash(kinds.frozen({"c": {}, "a": (1, {"b": [2]})}))
    assert copy.deepcopy(more) == pickle.loads(pickle.dumps(more)) == more
    for change in (
        lambda: more.update(x=1), lambda: more.pop("a"), more.clear, more.popitem, lambda: more.setdefault("x", 1),
        lambda: more.__setitem__("x", 1), lambda: more.__delitem__("a"), lambda: more.__ior__({"x": 1}),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            change()


@pytest.mark.parametrize(
    ("kind", "namespace", "more", "said"),
    [
        ("poem", "api", {}, "not one of"),
        ("entry", "mail", {}, "messages stand in"),
        ("message", "api", {"thread": THREAD}, "messages stand in"),
        ("message", "mail/x", {"thread": THREAD}, "messages stand in"),
        ("fact", "mail", {}, "messages stand in"),
        ("message", "mail", {}, "not a thread"),
        ("message", "mail", {"thread": "thr_../../../etc"}, "not a thread"),
        (
            "message",
            "mail",
            {"thread": THREAD, "parent": "fact_000000000001"},
            "not the id of a message",
        ),
        ("message", "mail", {"thread": THREAD, "urgency": "urgent"}, "does not go with"),
        ("message", "mail", {"thread": THREAD, "subjekt": "x"}, "is no field of a message"),
        ("message", "mail", {"thread": THREAD, "subject": "a\0b"}, "NUL"),
        ("message", "mail", {"thread": THREAD, "subject": "\ud800"}, "surrogate"),
        ("message", "mail", {"thread": THREAD, "subject": 7}, "not a text"),
        ("message", "mail", {"thread": THREAD, "metadata": {"a": float("nan")}}, "not JSON"),
        ("message", "mail", {"thread": THREAD, "metadata": {"a": "\ud800"}}, "surrogate"),
        ("message", "mail", {"thread": THREAD, "metadata": object()}, "not JSON"),
        ("fact", "api", {"importance": "much"}, "not a number"),
        ("fact", "api", {"importance": -1}, "not a number"),
        ("atom", "api", {"importance": 2}, "is no field of an atom"),
        ("entry", "api", {"subject": "x"}, "is no field of an entry"),
    ],
)
def test_what_a_kind_does_not_have_is_refused(kind, namespace, more, said):
    with pytest.raises(InvalidEntry, match=said):
        kinds.check(kind, namespace, more, "info")


# -- in the log ------------------------------------------------------------------------


def test_each_kind_is_an_entry_with_fields_of_its_own(mem):
    me = mem.as_agent("eng-a")
    sent = me.write(
        message(
            1, "eng-b", subject="Users", metadata={"n": [1, 2]}, attachments=[{"path": "a.txt"}]
        )
    )
    known = me.write(fact(2, "agents/eng-a", categories=["meta"], importance=2.5, cites=[sent.id]))
    atom = me.write(fact(3, "api/x", "atom", **ATOM))
    assert [entry.kind for entry in (sent, known, atom)] == ["message", "fact", "atom"]
    assert (sent.more["urgency"], sent.more["metadata"]) == ("normal", {"n": (1, 2)})
    assert {entry.ttl for entry in (sent, known, atom)} == {"never"}
    for entry in (sent, known, atom):
        assert me.get(entry.id) == entry
        assert hash(me.get(entry.id)) == hash(entry)
    digest = mem.digest()
    assert mem.rebuild().digest == digest
    with synapse.open("memory:") as other:
        other.import_(list(mem.export()))
        assert other.digest() == digest
        assert other.as_agent("eng-a").get(sent.id) == sent
    assert mem.verify().ok


def test_an_id_is_the_writer_s_and_nobody_gets_it_twice(mem):
    me, other = mem.as_agent("eng-a"), mem.as_agent("eng-b")
    first = me.write(message(1), once="key")
    assert me.write(message(2), once="key") == first
    for draft in (
        message(1),
        message(3)._replace(id=None),
        message(3)._replace(id="fact_000000000003"),
    ):
        with pytest.raises(Conflict, match="taken, or is no id"):
            other.write(draft)
    results = together(
        *(
            lambda agent_memory=agent_memory: agent_memory.write(message(9))
            for agent_memory in (me, other) * 2
        )
    )
    assert [type(result) for result in results].count(Conflict) == 3
    assert len([*me.read(namespace="mail")]) == 2


def test_an_id_behind_the_index_is_taken_too(tree):
    """What the index has not taken in yet is looked through."""
    me = tree.as_agent("eng-a")
    last = [me.write(message(n)) for n in range(5)][-1]
    assert tree.store.index.cursor() < last.seq
    with pytest.raises(Conflict):
        me.write(message(4))


def test_ids_that_others_took_behind_the_index_are_taken(tree, monkeypatch):
    """Whoever wrote them, however many: read on from where one was, or with the index caught up."""
    from synapse.log import taken_ids

    monkeypatch.setattr(taken_ids, "AHEAD", 5)
    monkeypatch.setattr(taken_ids, "KEPT", 6)
    me, count = tree.as_agent("eng-a"), 0
    with synapse.open(tree.store.root) as other:
        for burst in (1, 3, 8, 2, 4):
            for _ in range(burst):
                other.as_agent("eng-b").write(message(count))
                count += 1
            for n in range(count):
                with pytest.raises(Conflict):
                    me.write(message(n))
            me.write(message(1_000 + count))
    assert len({entry.id for entry in me.read(namespace="mail", limit=None)}) == count + 5


def test_mail_is_seen_by_whom_it_names_and_by_all(mem):
    me, near, far = (mem.as_agent(id) for id in ("eng-a", "eng-b", "eng-c"))
    for n, to in enumerate(("all", "eng-b", "team:frontend"), 1):
        me.write(message(n, to))
    bodies = {
        agent_memory.id: {entry.body for entry in agent_memory.read(namespace="mail")}
        for agent_memory in (me, near, far)
    }
    assert bodies == {
        "eng-a": {"said 1", "said 2", "said 3"},
        "eng-b": {"said 1", "said 2"},
        "eng-c": {"said 1", "said 3"},
    }


def test_pages_and_counts_are_of_entries_unless_mail_is_asked_for(mem):
    me, near = mem.as_agent("eng-a"), mem.as_agent("eng-b")
    entry = me.append("an entry", "api/x")
    near.read(mark=True)
    for n in range(1, 8):
        me.write(message(n, priority=("info", "important", "critical")[n % 3]))
    known = me.write(fact(8, "api/x"))
    for asked in (
        {},
        {"limit": None},
        {"since": "24h"},
        {"namespace": "*"},
        {"author": "eng-a"},
        {"limit": 2},
    ):
        page = near.read(**asked)
        assert {found.id for found in page} == {entry.id, known.id}, asked
        assert (page.matched, page.visible) == (2, 2), asked
    for priority in ("critical", ["critical", "important"]):
        assert [*near.read(priority=priority)] == []
    assert near.unread() == 1
    assert len(near.read(namespace="mail")) == 7 == near.read(namespace="mail").visible


def test_views_and_followers_take_what_is_urgent_in_mail(mem):
    me, near = mem.as_agent("eng-a"), mem.as_agent("eng-b")
    sent = {
        word: me.write(message(n, "eng-b", priority=tier, urgency=word))
        for n, (word, tier) in enumerate(kinds.URGENCY.items())
    }
    shown = {found.id for found in near.briefing().included}
    assert shown == {sent["urgent"].id, sent["action"].id}
    assert {event.entry.id for event in near.follow(0, critical=True, timeout=0)} == {
        sent["urgent"].id
    }


def test_what_was_said_in_mail_its_author_mends_alone(mem):
    me, near, lead = (mem.as_agent(id) for id in ("eng-a", "eng-b", "lead"))
    first = me.write(message(1))
    for agent_memory, draft in (
        (near, message(2, replaces=(first.id,))),
        (lead, message(2, replaces=(first.id,))),
    ):
        with pytest.raises(Forbidden, match="by its own author"):
            agent_memory.write(draft)
    with pytest.raises(Forbidden, match="in its own thread"):
        me.write(message(2, thread=OTHER, replaces=(first.id,)))
    with pytest.raises(Forbidden):
        me.append("an entry in its place", "api/x", supersedes=first.id)
    with pytest.raises(InvalidEntry, match="no topic"):
        me.write(message(2)._replace(topic="t"))
    mended = me.write(message(2, replaces=(first.id,)))
    assert [entry.id for entry in near.read(namespace="mail")] == [mended.id]


def test_recall_scopes_come_with_an_agent(mem):
    me, near, far, lead = (mem.as_agent(id) for id in ("eng-a", "eng-b", "eng-c", "lead"))
    own = me.write(fact(1, "agents/eng-a"))
    group = me.write(fact(2, "groups/backend/db"))
    for place in ("agents/eng-b", "groups/frontend", "global", "global/x"):
        with pytest.raises(Forbidden):
            me.write(fact(3, place))
    common = lead.write(fact(4, "global"))
    seen = {
        agent_memory.id: {found.id for found in agent_memory.read()}
        for agent_memory in (me, near, far)
    }
    assert seen == {
        "eng-a": {own.id, group.id, common.id},
        "eng-b": {group.id, common.id},
        "eng-c": {common.id},
    }


def test_who_may_write_for_all_is_a_setting(tmp_path):
    with (
        synapse.init(str(tmp_path / "w")) as mem,
        open(path(mem, "synapse.yaml"), "a", encoding="utf-8") as file,
    ):
        file.write("global_write: 60\n")
    with synapse.open(str(tmp_path / "w")) as mem:
        assert (
            mem.store.settings == mem.store.log.settings()._replace(global_write=60) != Settings()
        )
        peopled(mem).as_agent("eng-a").append("for all", "global")
        mem.register(Agent("helper", role="specialist", write=("*",)))
        with pytest.raises(Forbidden, match="authority 60, and it has 40"):
            mem.as_agent("helper").append("for all", "global")


# -- in the tree -----------------------------------------------------------------------


def test_files_of_each_kind_stand_in_their_place(tree):
    me = tree.as_agent("eng-a")
    sent = me.write(message(1, "eng-b", subject="Users: v2", metadata={"it's": "x"}))
    me.write(fact(2, "groups/backend", categories=["meta"]))
    me.write(fact(3, "api/x", "atom", **ATOM))
    with open(path(tree, "messages", THREAD, f"{sent.id}.md"), encoding="utf-8") as file:
        lines = file.read().split("\n")
    assert {"kind: message", f"thread: {THREAD}", 'subject: "Users: v2"', "urgency: normal"} <= {
        *lines
    }
    assert "metadata: '{\"it''s\": \"x\"}'" in lines
    assert os.listdir(path(tree, "knowledge", "groups", "backend")) == ["fact_000000000002.md"]
    assert os.listdir(path(tree, "knowledge", "api", "x")) == ["atom_000000000003.md"]
    assert conformance.check(tree.store.root) == []


def test_a_lost_file_comes_back_and_what_is_filed_away_too(tree):
    me = tree.as_agent("eng-a")
    ids = [me.write(draft).id for draft in (message(1), message(2), fact(3, "api/x"))]
    os.unlink(path(tree, "messages", THREAD, f"{ids[0]}.md"))
    os.unlink(path(tree, "knowledge", "api", "x", f"{ids[2]}.md"))
    assert len(tree.verify().problems) == 2
    assert tree.repair().ok
    me.archive(ids[1:])
    assert os.listdir(path(tree, "messages", THREAD)) == [f"{ids[0]}.md"]
    assert [entry.id for entry in me.read(namespace="mail")] == ids[:1]
    assert {entry.id for entry in me.read(archived=True)} == {ids[2]}
    assert tree.verify().ok
    me.restore(ids[1:])
    assert sorted(os.listdir(path(tree, "messages", THREAD))) == [f"{id}.md" for id in ids[:2]]
    assert tree.verify().ok


def dropped(mem, where, text):
    full = path(mem, where)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "w", encoding="utf-8") as file:
        file.write(text)
    old = now() / 1e6 - 10
    os.utime(full, (old, old))


def front(kind, more="", namespace="", author="eng-a"):
    return (
        f"---\nfrom: {author}\ntimestamp: 2026-02-01T01:00:00Z\npriority: info\n"
        f"kind: {kind}\n{namespace}{more}---\n\nDropped.\n"
    )


def settle(mem, monkeypatch):
    from synapse.log import adopt

    # a file is finished at once, also for the first look
    monkeypatch.setattr(adopt, "SETTLED", 2.0**-30)
    mem.store.refresh(whole=True)


def test_dropped_mail_and_knowledge_is_adopted(tree, monkeypatch):
    dropped(tree, f"messages/{THREAD}/hello.md", front("message", "subject: Hello\n"))
    dropped(
        tree, "knowledge/api/x/a.md", front("fact", "categories: [one, two]\nimportance: 2.5\n")
    )
    dropped(
        tree, "inbox/eng-a/new/first.md", front("message", "subject: A new thread\nto: eng-b\n")
    )
    dropped(
        tree,
        "inbox/eng-a/new/next.md",
        front("message", f"thread: {THREAD}\nparent: syn_000000000001\n"),
    )
    assert [
        finding for finding in conformance.check(tree.store.root) if finding.verdict == "fail"
    ] == []
    settle(tree, monkeypatch)
    mail = {
        entry.more.get("subject"): entry for entry in tree.as_agent("eng-b").read(namespace="mail")
    }
    assert {subject: entry.trust for subject, entry in mail.items()} == {
        "Hello": "local",
        "A new thread": "local",
        None: "local",
    }
    assert (
        mail["Hello"].more["thread"]
        == mail[None].more["thread"]
        == THREAD
        != mail["A new thread"].more["thread"]
    )
    assert all(kinds.kind_of(entry.id) == "message" for entry in mail.values())
    known = next(iter(tree.as_agent("eng-a").read()))
    assert (known.kind, dict(known.more)) == (
        "fact",
        {"categories": ("one", "two"), "importance": 2.5},
    )
    assert tree.verify().ok
    before = tree.store.log.mark()
    settle(tree, monkeypatch)
    assert tree.store.log.mark() == before


@pytest.mark.parametrize(
    ("where", "text", "said"),
    [
        ("messages/notes.md", front("message"), "not a thread"),
        ("messages/thr_1/x.md", front("message"), "not a thread"),
        (
            f"messages/{THREAD}/x.md",
            front("message", f"thread: {OTHER}\n"),
            "does not fit the place",
        ),
        (f"messages/{THREAD}/x.md", front("entry"), "no kind that stands in"),
        (f"messages/{THREAD}/x.md", front("message", "urgency: loud\n"), "does not go with"),
        (f"messages/{THREAD}/x.md", front("message", "metadata: '{'\n"), "metadata is not valid"),
        ("knowledge/api/x/x.md", front("message"), "no kind that stands in"),
        ("knowledge/api/x/x.md", front("fact", "importance: much\n"), "importance is not valid"),
        ("entries/api/x/x.md", front("fact"), "no kind that stands in"),
        ("entries/api/x/x.md", front("poem"), "kind 'poem' is not valid"),
        ("entries/mail/x.md", front("entry"), "messages stand in"),
        (
            "inbox/eng-a/new/x.md",
            front("message", "parent: syn_000000000001\n"),
            "thread is missing",
        ),
        ("knowledge/global/x.md", front("fact"), "takes authority 80"),
    ],
)
def test_what_cannot_be_taken_is_put_aside_with_the_reason(tree, monkeypatch, where, text, said):
    dropped(tree, where, text)
    assert "fail" in {finding.verdict for finding in conformance.check(tree.store.root)}
    settle(tree, monkeypatch)
    assert not os.path.exists(path(tree, where))
    reasons = [
        name for name in os.listdir(path(tree, "quarantine")) if name.endswith(".reason.txt")
    ]
    with open(path(tree, "quarantine", *reasons), encoding="utf-8") as file:
        assert said in file.read()
    assert tree.verify().ok


def test_an_id_is_taken_whoever_wrote_it_and_is_not_read_again(tree):
    with synapse.open(tree.store.root, clock=tree.store.clock) as other:
        both = [each.as_agent("eng-a") for each in (tree, other)]
        read = []
        for each in (tree, other):
            taken = each.store.commit.taken
            since = taken.log.since
            taken.log = SimpleNamespace(
                since=lambda seq, since=since, **how: read.append(seq) or since(seq, **how)
            )
        for n, turn in enumerate((0, 0, 1, 0, 1, 1, 0, 1, 1, 1)):
            both[turn].write(message(n))
            for me in both:
                for old in range(n + 1):
                    with pytest.raises(Conflict, match="taken"):
                        me.write(message(old))
        assert read, "the other's lines are read"
        read.clear()
        for n in range(20, 30):
            both[1].write(message(n))
        assert not read, "one's own are not"


def test_of_very_many_threads_each_has_its_turn(tree, monkeypatch):
    from synapse.log import adopt

    monkeypatch.setattr(adopt, "THREADS", 3)
    monkeypatch.setattr(adopt, "LIVELY", 2)
    threads = [f"messages/{kinds.new_thread(bytes([n]) * 16)}" for n in range(10)]
    for folder in threads:
        os.makedirs(path(tree, folder))
    settle(tree, monkeypatch)
    scanner = tree.store.log.scanner
    looks = [{*scanner._due(turn * adopt.SETTLED)} & {*threads} for turn in range(40)]
    assert all(3 <= len(look) <= 5 for look in looks)
    for start in range(36):
        assert set().union(*looks[start : start + 4]) == {*threads}, "four looks are a whole turn"
    scanner._rouse(threads[5])
    assert all(threads[5] in scanner._due(turn * adopt.SETTLED) for turn in range(8))
    scanner._save()
    cold = [
        {*adopt.Scanner(tree.store.log.root)._due(turn * adopt.SETTLED)} & {*threads}
        for turn in range(10)
    ]
    assert set().union(*cold) == {*threads}, "each look by a new process"


def test_a_drop_in_a_quiet_thread_among_many_is_taken(tree, monkeypatch):
    from synapse.log import adopt

    monkeypatch.setattr(adopt, "THREADS", 3)
    monkeypatch.setattr(adopt, "LIVELY", 2)
    threads = [f"messages/{kinds.new_thread(bytes([n]) * 16)}" for n in range(10)]
    for folder in threads:
        os.makedirs(path(tree, folder))
    settle(tree, monkeypatch)
    dropped(tree, f"{threads[4]}/x.md", front("message"))
    for _ in range(4):  # a whole turn
        tree.store.tree.look(tree.store._admit_drop)
    assert len(tree.as_agent("eng-b").read(namespace="mail")) == 1
    dropped(tree, f"{threads[8]}/x.md", front("message"))
    tree.store.refresh(whole=True)  # one look at the whole tree
    assert len(tree.as_agent("eng-b").read(namespace="mail")) == 2


def test_a_file_in_place_of_a_folder_is_found(tree, monkeypatch):
    folder = "entries/api/x.md"
    os.makedirs(path(tree, folder))
    settle(tree, monkeypatch)
    os.rmdir(path(tree, folder))
    dropped(tree, folder, front("entry"))
    for _ in range(2):  # it is no folder; it is a file
        settle(tree, monkeypatch)
    assert [entry.body for entry in tree.as_agent("lead").read()] == ["Dropped."]


def test_no_night_merges_mail_or_knowledge_or_makes_room_of_it(tree):
    from synapse import consolidate

    me = tree.as_agent("lead")
    twins = [message(n)._replace(body="the same words") for n in (1, 2)]
    twins += [fact(n, "api/x")._replace(body="the same words" * 60_000) for n in (3, 4)]
    ids = {me.write(draft).id for draft in twins}
    for night in range(3):
        tree.store.clock.advance("1d")
        assert consolidate.run_nightly(tree, f"2026-03-0{night + 1}", tree.store.clock()).ran
    assert {id for id in ids if not me.get(id).archived} == ids


@pytest.mark.parametrize("kind", ["[]", "{a: b}", "rumour"])
def test_a_kind_that_there_is_none_of_is_a_problem(kind):
    text = (
        f"---\nid: syn-1\nfrom: a\ntimestamp: 2026-02-01\nnamespace: api\npriority:"
        f" info\nkind: {kind}\n---\nx\n"
    )
    with pytest.raises(InvalidEntry, match=r"kind .* is not valid"):
        codec.parse(text)
