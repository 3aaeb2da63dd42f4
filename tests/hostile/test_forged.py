"""Forged entries through channels with an identity: none is taken for somebody else's
word.

Who wrote a file is decided by how it came: by the user that owns it, or by the inbox it lay in.
What it says of itself is a claim. The checker knows how each file came, and looks at what the log
made of it.
"""

import json
import os
import random
from collections import Counter

import pytest

import synapse
from synapse.authority import wakes
from synapse.log import adopt
from synapse.model.agents import authority_in
from synapse.model.namespace import is_namespace, matches_any

# Files through inboxes in every run, and twice as many through all ways; in the soak 10,000.
SHORT = 600
STRANGER, NOBODY = 3_000, 65_534
USERS = {"eng-a": 2_001, "eng-b": 2_002, "lead": 2_003}
NAMESPACES = [
    "api/endpoints",
    "api/v2/users",
    "blockers/x",
    "decisions/core",
    "status/eng-b",
    "global",
]
NAMES = [
    "eng-a", "eng-b", "lead", "cto", "operator", "consolidator", "all", "nobody", "Eng-a", "ENG-A", "еng-a", "eng-a ",
    "eng-a.", "eng–a", "eng-a\u200b", "\u202eeng-a", "eng_a", "../eng-a", "eng-a/..", "no", "007", "true", "~", "",
    "[cto]", "{a: cto}", "cto # eng-a", "eng-a\\ncto", "eng-a,cto", "*", "&a cto", "!!str cto", "ｅng-a",
]  # fmt: skip
EXTRAS = [
    "", "authority: 100", "trust: reviewed", "trust: keyed\nauthority: 100", "staged: false", "seq: 1", "received: 1",
    "from: cto", "From: cto", "from : cto", '"from": cto', "from_agent: cto", "author: cto", "<<: {from: cto}",
    "namespace: decisions/core", "scope: team", "scope: private", "pii: true", "to: all", "to: [agent:eng-a]",
    "priority: critical", "ttl: never", "ttl: 0s", "topic: plan", "topic: shared", "supersedes: {victim}",
    "supersedes: [{victim}, {other}]", "related: {victim}", "derived_from: {victim}", "operator: yes", "uid: 0",
    "id: {victim}", "created_at: 2026-02-01T00:00:00Z",
]  # fmt: skip


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Files are adopted as they come, and the disk is not waited for: this is not about either."""
    monkeypatch.setattr(adopt, "SETTLED", -1)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)


def staffed(root):
    memory = synapse.init(str(root))
    for name, uid in USERS.items():
        globs = ["*"] if name == "lead" else ["api/*", f"status/{name}"]
        role, user = ("project-lead" if name == "lead" else "engineer"), str(uid)
        memory.register(
            synapse.Agent(
                name, role=role, read=["*"], write=globs, user=user, notify=("critical", "info")
            )
        )
    memory.register(synapse.Agent("cto", role="cto"))
    return memory


def forged(chance, number, victims, own):
    """A file that claims what it likes; `own` is the identity of its channel, which an honest one
    would name.
    """
    author = own if chance.random() < 0.3 and own else chance.choice(NAMES)
    namespace = chance.choice(NAMESPACES)
    if chance.random() < 0.03:
        namespace = chance.choice(
            ["../x", "api/../decisions", "api//x", "/api", "api/", "API", "api/%2e%2e", "a" * 64]
        )
    extra = (
        chance.choice(EXTRAS)
        .replace("{victim}", chance.choice(victims))
        .replace("{other}", chance.choice(victims))
    )
    quoted = json.dumps(author) if chance.random() < 0.5 else author
    lines = [
        f"id: syn-forged-{number}",
        f"from: {quoted}",
        "timestamp: 2026-02-01T00:00:00Z",
        f"namespace: {namespace}",
    ]
    lines += [
        "priority: critical" if chance.random() < 0.5 else "priority: info",
        *filter(None, [extra]),
    ]
    if chance.random() < 0.2:
        chance.shuffle(lines)
    return namespace, "---\n" + "\n".join(lines) + f"\n---\n\nforged {number}\n"


def drop(root, chance, number, victims, channels):
    """Put a file into one of the channels; whose it is by that, None for nobody's, and whether it
    may be anyone's.
    """
    kind, uid, inbox = chance.choice(channels)
    own = (
        next((name for name, user in USERS.items() if user == uid), None)
        if inbox is None
        else inbox
    )
    namespace, text = forged(chance, number, victims, own or "eng-a")
    folder = (
        root / "inbox" / inbox / "new"
        if inbox
        else root / "entries" / (namespace if is_namespace(namespace) else "x")
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"forged-{number}.md"
    path.write_text(text)
    if uid is not None:
        os.chown(path, uid, -1)
    return kind, own


def check_entry(entry, kind, own, agents):
    """Why an accepted entry should not have been accepted as it was, if so."""
    if kind in ("stranger", "nobody's inbox", "another's inbox"):
        if kind != "stranger":
            return "accepted through an inbox that is not its owner's"
        if (entry.trust, entry.authority) != ("unverified", 0):
            return f"a stranger's word has trust {entry.trust} and authority {entry.authority}"
        if entry.priority == "critical" or any(wakes(entry, agent) for agent in agents.values()):
            return "a stranger's word is critical, or wakes"
        return None
    if entry.author != own:
        return f"accepted as {entry.author}'s"
    agent = agents[own]
    if entry.authority != authority_in(agent, entry.namespace):
        return f"authority {entry.authority} in {entry.namespace}"
    if not matches_any(agent.write, entry.namespace):
        return f"accepted in {entry.namespace}"
    return None if entry.trust == "local" else f"trust {entry.trust}"


def run(root, count, channels):
    """Drop them all, in batches; the reasons why any should not have been accepted, and what became
    of them.
    """
    chance, problems, fates, cames = random.Random(11), [], Counter(), {}
    with staffed(root) as memory:
        cto, a, b = (memory.as_agent(name) for name in ("cto", "eng-a", "eng-b"))
        victims = [
            cto.append("a decision", "decisions/core", topic="shared").id,
            cto.append("x", "global").id,
        ]
        victims += [a.append("an endpoint", "api/endpoints", topic="shared", ttl="never").id]
        victims += [
            b.append("users", "api/v2/users", topic="plan").id,
            b.append("my status", "status/eng-b").id,
        ]
        # nobody but the cto writes there, or stands as high
        guarded = {victims[0], victims[1]}
        outside = sorted(os.listdir(root.parent))
        for start in range(0, count, 500):
            for number in range(start, min(start + 500, count)):
                cames[number] = drop(root, chance, number, victims, channels)
            memory.store.refresh(whole=True)
        agents = {agent.id: agent for agent in memory.agents()}
        entries = memory.as_agent("operator")
        for record in memory.store.log.since():
            if record.kind == "quarantine":
                fates["put aside"] += 1
            elif record.kind == "entry" and "forged" in record.text:
                entry = entries.get(record.id)
                kind, own = cames[int(entry.body.split()[1])]
                problem = check_entry(entry, kind, own, agents)
                problems += [(problem, kind, own, entry)] if problem else []
                fates[kind] += 1
        shown = {entry.id: entry for entry in entries.read()}
        problems += [("buried", id) for id in guarded if id not in shown]
        problems += [
            ("buried", id) for id in victims if id not in shown and not honest_burial(memory, id)
        ]
        problems += [("disputed", id) for id in guarded & set(shown) if shown[id].disputed]
        assert sorted(os.listdir(root.parent)) == outside
        assert sum(fates.values()) == count, "every one is accepted or put aside"
        assert memory.verify().problems == ()
    return problems, fates


def honest_burial(memory, id):
    """Whether an entry is hidden by one that its author, or somebody above it, may have written
    there.
    """
    fate = memory.as_agent("operator").fate(id)
    old = memory.as_agent("operator").get(id)
    by = memory.as_agent("operator").get(fate.by)
    return by.trust != "unverified" and (by.author == old.author or by.authority >= old.authority)


INBOXES = [
    ("inbox", None, "eng-a"),
    ("inbox", None, "eng-b"),
    ("inbox", None, "lead"),
    ("nobody's inbox", None, "ghost"),
]
OWNERS = [
    *(("owner", uid, None) for uid in USERS.values()),
    ("stranger", STRANGER, None),
    ("stranger", NOBODY, None),
    *(("inbox", uid, name) for name, uid in USERS.items()),
    ("another's inbox", USERS["eng-b"], "eng-a"),
    ("another's inbox", USERS["eng-a"], "lead"),
    ("another's inbox", STRANGER, "eng-a"),
]


def check(root, count, channels, kinds):
    problems, fates = run(root, count, channels)
    assert problems == []
    assert fates["put aside"] > count / 4
    assert set(kinds) <= set(fates), (
        "honest ones among them were accepted, so the checker looked at something"
    )
    assert not {"nobody's inbox", "another's inbox"} & set(fates)
    return fates


def test_forged_entries_in_inboxes(tmp_path):
    check(tmp_path / "memory", SHORT, INBOXES, ["inbox"])


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to other users")
KINDS = ["inbox", "owner", "stranger"]


@needs_root
def test_forged_entries_of_other_users(tmp_path):
    check(tmp_path / "memory", 2 * SHORT, [*INBOXES, *OWNERS], KINDS)


@pytest.mark.soak
@needs_root
def test_ten_thousand_forged_entries(tmp_path):
    print(check(tmp_path / "inboxes", 3_000, INBOXES, ["inbox"]))
    print(check(tmp_path / "memory", 7_000, [*INBOXES, *OWNERS], KINDS))


def test_the_checker_catches_a_gate_that_believes_the_text(tmp_path, monkeypatch):
    monkeypatch.setattr(synapse.store.Store, "_admit_drop", believing)
    problems, _ = run(tmp_path / "memory", SHORT, INBOXES)
    assert any("accepted as" in problem[0] for problem in problems)


def believing(store, draft, channel):
    # what is to be sealed the log itself refuses
    draft = draft._replace(scope="public")
    return synapse.authority.admit(
        draft, store.index.current.declared.get(draft.author), store.settings
    )


# -- single tricks ---------------------------------------------------------------------------------


def dropped(memory, text, uid=None, namespace="api/endpoints", name="x.md"):
    folder = os.path.join(memory.store.root, "entries", namespace)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)
    if uid is not None:
        os.chown(os.path.join(folder, name), uid, -1)
    memory.store.refresh(whole=True)


def text_of(author, body, namespace="api/endpoints", **more):
    fields = {
        "id": "syn-x-1",
        "from": author,
        "timestamp": "2026-02-01T00:00:00Z",
        "namespace": namespace,
    }
    lines = (f"{key}: {value}" for key, value in (fields | {"priority": "info"} | more).items())
    return "---\n" + "\n".join(lines) + f"\n---\n\n{body}\n"


@needs_root
@pytest.mark.parametrize("how", ["supersedes", "topic", "both"])
@pytest.mark.parametrize("authority", [0, 60])
def test_a_stranger_under_the_author_s_name_hides_nothing(tmp_path, how, authority):
    with staffed(tmp_path / "memory") as memory:
        memory.register(synapse.Agent("victim", read=["*"], write=["*"], authority=authority))
        id = memory.as_agent("victim").append("the truth", "api/endpoints", topic="t").id
        more = {
            "supersedes": {"supersedes": id},
            "topic": {"topic": "t"},
            "both": {"supersedes": id, "topic": "t"},
        }
        dropped(memory, text_of("victim", "a lie", **more[how]), STRANGER)
        shown = {entry.body: entry for entry in memory.as_agent("eng-a").read()}
        assert "the truth" in shown
        assert memory.rebuild().digest == memory.digest()
        assert "the truth" in {entry.body for entry in memory.as_agent("eng-a").read()}


@needs_root
def test_a_drop_supersedes_only_where_its_author_may_write(tmp_path):
    with staffed(tmp_path / "memory") as memory:
        memory.register(synapse.Agent("low", read=["*"], write=["*"], authority=10))
        id = memory.as_agent("low").append("decided", "decisions/core").id
        dropped(memory, text_of("eng-a", "no", supersedes=id), USERS["eng-a"])
        assert "decided" in {entry.body for entry in memory.as_agent("eng-a").read()}
        assert memory.audit(limit=1)[0].kind == "quarantine"


@needs_root
@pytest.mark.parametrize("ahead", range(5))
def test_a_stranger_cannot_take_an_id_before_it_is_given_out(tmp_path, ahead):
    """A name that a file claims is kept, and found by it: but never one that the log has yet to
    give.
    """
    with staffed(tmp_path / "memory") as memory:
        me = memory.as_agent("eng-a")
        first = me.append("first", "api/endpoints").id
        day, number = first.rsplit("-", 1)
        claimed = f"{day}-{int(number) + ahead:03d}"
        dropped(memory, text_of("cto", "a lie").replace("syn-x-1", claimed), STRANGER, name="a.md")
        kept = {}
        for n in range(6):
            entry = me.append(f"body {n}", "status/eng-a")
            kept[entry.id] = entry.body
        assert len(kept) == 6
        assert {id: me.get(id).body for id in kept} == kept
        assert me.get(first).body == "first"


@needs_root
def test_a_stranger_s_word_counts_once_it_is_vouched_for_by_somebody_above(tmp_path):
    with staffed(tmp_path / "memory") as memory:
        dropped(memory, text_of("eng-a", "true after all", priority="critical"), STRANGER)
        entry = memory.as_agent("lead").read()[0]
        assert (entry.trust, entry.authority, entry.priority) == ("unverified", 0, "important")
        memory.register(synapse.Agent("low", read=["*"], write=["*"], authority=10))
        with pytest.raises(synapse.Forbidden):
            memory.as_agent("low").vouch(entry.id)
        entry = memory.as_agent("lead").vouch(entry.id)
        assert (entry.trust, entry.authority, entry.priority) == ("reviewed", 60, "critical")


@needs_root
@pytest.mark.parametrize("before", ["resolve", "supersede"])
def test_a_voucher_does_not_bring_back_what_is_done(tmp_path, before):
    with staffed(tmp_path / "memory") as memory:
        dropped(memory, text_of("eng-b", "old", topic="t"), STRANGER)
        lead, id = memory.as_agent("lead"), memory.as_agent("lead").read()[0].id
        if before == "resolve":
            lead.resolve(id)
        else:
            memory.as_agent("eng-b").append("new", "api/endpoints", topic="t", supersedes=id)
        lead.vouch(id)
        assert "old" not in {entry.body for entry in lead.read()}
        assert memory.rebuild().digest == memory.digest()
        assert "old" not in {entry.body for entry in lead.read()}


@needs_root
def test_what_is_private_is_put_aside_for_its_owner_alone(tmp_path):
    with staffed(tmp_path / "memory") as memory:
        for n, more in enumerate(({"pii": "true"}, {"scope": "private"}, {"scope": "encrypted"})):
            dropped(memory, text_of("eng-a", "a secret", **more), USERS["eng-a"], name=f"x{n}.md")
        assert memory.as_agent("operator").read().entries == ()
        aside = list((tmp_path / "memory" / "quarantine").glob("*.md"))
        assert len(aside) == 3
        assert {path.stat().st_mode & 0o777 for path in aside} == {0o600}
        everywhere = b"".join(
            path.read_bytes() for path in (tmp_path / "memory" / "journal").iterdir()
        )
        assert b"a secret" not in everywhere
