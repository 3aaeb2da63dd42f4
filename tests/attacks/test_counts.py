"""What counts, orders, registers and errors tell of entries that their reader may not see.

Two worlds have the same public acts at the same times. One of them holds hidden entries, mail, claims,
runs and links besides, the other one acts that nobody reads in their place. Whatever a reader asks,
both answer with the same bytes, and the index is asked the same with as many rows. Exempt, for
they say only how far the log has come: cursors, seqs, the numbers in ids and the journal's head;
and a search's score, which weighs a word by how many entries of the workspace hold it.
"""

import re

import pytest

import synapse
from synapse import cli
from synapse.agent_memory import AgentMemory
from synapse.history import timeline
from synapse.index.database import Database
from synapse.knowledge import memory, recall
from synapse.mail.mailbox import Mail
from synapse.model import clock as clocks
from synapse.model.records import Record
from synapse.model.results import Page
from synapse.testing import FrozenClock
from synapse.tools import CLIENTS, TOOLS, call

LOW = "low"
BASE = clocks.now() - 6 * 3_600_000_000
AGENTS = (
    ("cto", "cto", {}),
    ("hr", "engineer", {"read": ("secret/*", "api/*"), "write": ("*",), "teams": ("people",)}),
    (LOW, "engineer", {"read": ("api/*",), "write": ("api/*",), "authority": 10}),
    ("peer", "engineer", {"read": ("api/*",), "write": ("api/*",)}),
    ("junior", "engineer", {"write": ("*",), "review_required": True}),
)


def hidden_acts(mem, turn):
    """Yield acts that the reader may not see, of every kind."""
    cto, hr, junior = (mem.as_agent(name) for name in ("cto", "hr", "junior"))
    yield lambda: cto.append(f"users salary {turn}", "secret/hr", tags=["layoffs"])
    yield lambda: cto.append("fired users", "secret/hr", priority="critical", topic="t")
    yield lambda: hr.append("users", "secret/hr", priority="important", topic="t")
    yield lambda: hr.append("users for cto", "api/users", to="agent:cto")
    yield lambda: cto.append("ask me about users", "api/users", to="agent:hr", topic="u")
    yield lambda: replace(mem, hr, "users are slow", namespace="secret/hr")
    yield lambda: replace(mem, hr, "users tests run", namespace="api/users", to="agent:cto")
    yield lambda: replace(mem, cto, "users down", namespace="api/users", to="agent:hr")
    yield lambda: replace(mem, cto, "users have ids", namespace="secret/hr")
    yield lambda: cto.append("users soon over", "secret/hr", ttl="1m")
    yield lambda: junior.append("users waiting", "api/users")
    yield lambda: Mail(cto).send("hr", "users are fired", subject="layoffs")
    yield lambda: Mail(cto).send("hr", "users now", priority="urgent", tags="layoffs")
    yield lambda: memory.remember(cto, "users fact", categories="layoffs")
    yield lambda: hr.claim(f"layoffs {turn}", note="users first")
    yield lambda: cto.writer.shown([], 5, 1, "read")
    yield lambda: Mail(hr).react(Mail(hr).inbox()[0].id, "ok")
    yield lambda: mem.store.commit.append(
        Record.new(
            "run",
            "hr",
            {
                "run": f"run-{turn}",
                "project": "layoffs",
                "agent": "hr",
                "state": "ended",
                "status": "done",
            },
        )
    )
    yield lambda: mem.store.commit.append(
        Record.new("quarantine", "log", {"path": "entries/secret/x.md", "reason": "x"})
    )
    yield lambda: mem.store.commit.append(
        Record.new("stop", "operator", {"run": f"run-{turn}", "reason": "layoffs"})
    )


def replace(mem, me, body, **more):
    """Write what supersedes the public entry with this text, where there is one by now."""
    for entry in mem.as_agent("operator").read(limit=None):
        if entry.body == body:
            return me.append("users otherwise", supersedes=entry.id, **more)
    return me.append("users otherwise", **more)


def build(root, hidden):
    """Return a world: the same public acts at the same times, and hidden ones in between, or as many
    that nobody reads.
    """
    clock = FrozenClock(BASE)
    mem = synapse.init(str(root), clock=clock) if root else synapse.open("memory:", clock=clock)
    for id, role, more in AGENTS:
        mem.register(synapse.Agent(id, role, **more))
    cto, low, peer = (mem.as_agent(name) for name in ("cto", LOW, "peer"))
    public = [
        lambda: cto.append("use users endpoint", "api/users", tags=["layoffs"], topic="u"),
        lambda: peer.append("users are slow", "api/users", priority="important"),
        lambda: low.append("users tests run", "api/users"),
        lambda: Mail(cto).send("all", "users freeze", subject="Freeze"),
        lambda: peer.append("use users v2", "api/users", topic="u"),
        lambda: memory.remember(cto, "users have ids", scope="global"),
        lambda: cto.append("users down", "api/users", priority="critical"),
        lambda: peer.claim("the docs", note="secret plan"),
        lambda: low.append("users tests run again", "api/users", topic="u"),
    ]
    for turn, act in enumerate(public):
        clock.advance("10m")
        act()
        for place, secret in enumerate(hidden_acts(mem, turn)):
            clock.advance("1s")
            if hidden:
                secret()
            else:
                mem.store.commit.act("used", "cto", counts={f"fact_{turn}{place}": 1})
    clock.advance("1h")
    mem.store.refresh(whole=True)
    return mem


MASKS = (
    (r"(syn-\d{4}-\d\d-\d\d)-\d+", r"\1-N"),
    (r"\b(syn|fact|atom|thr)_[0-9a-f-]{8,36}", r"\1_X"),
    (r'("?(?:cursor|seq|of)"?[=: ]+)\d+', r"\1C"),
    (r'"head": "\d+:[0-9a-f]{64}"', "HEAD"),  # of the whole journal
    (r"(up to record|cursor|up to|records?) \d+", r"\1 C"),
)


def masked(answer):
    """Return an answer without what says only how far the log has come."""
    text = answer if isinstance(answer, str) else repr(answer)
    for pattern, put in MASKS:
        text = re.sub(pattern, put, text)
    return text


def page(found):
    return (
        [(entry.id, entry.body, entry.disputed) for entry in found],
        found.matched,
        found.visible,
    )


FILTERS = [
    {},
    {"limit": 1},
    {"limit": None},
    {"limit": 0},
    {"namespace": "secret/*"},
    {"namespace": "secret/hr"},
    {"namespace": "mail"},
    {"namespace": "*"},
    {"author": "cto"},
    {"author": "hr"},
    {"author": "cto", "tag": "layoffs"},
    {"author": "cto", "tag": "layoffs", "namespace": "secret/hr"},
    {"author": "cto", "namespace": "mail"},
    {"tag": "layoffs"},
    {"priority": "critical"},
    {"priority": "critical", "namespace": "secret/*"},
    {"since": "24h"},
    {"since": "30m"},
    {"archived": True},
    {"unread": True},
    {"unread": True, "limit": 2},
    {"unread": True, "author": "cto"},
]
READS = {
    f"read {filters}": lambda me, mem, filters=filters: page(me.read(**filters))
    for filters in FILTERS
}
READS |= {
    "unread": lambda me, mem: me.unread(),
    "staged": lambda me, mem: me.staged(),
    "briefing": lambda me, mem: me.briefing(quick=True).text,
    "briefing 300": lambda me, mem: me.briefing(300, quick=True).text,
    "about": lambda me, mem: me.briefing(quick=True, about="users salary").text,
    "later": lambda me, mem: [e.id for e in me.later("2h")],
    "fates": lambda me, mem: [me.fate(e.id) and me.fate(e.id).reason for e in me.read()],
    "was": lambda me, mem: me.briefing(as_of="90m", quick=True).text,
    "poll": lambda me, mem: Mail(me).poll(),
    "inbox": lambda me, mem: [m.body for m in Mail(me).inbox()],
    "threads": lambda me, mem: [
        (t.subject, t.total, t.status, t.tags) for t in Mail(me).threads(None)
    ],
    "tagged": lambda me, mem: Mail(me).threads(tag="layoffs"),
    "history": lambda me, mem: [
        [m.body for m in Mail(me).history(t.id)] for t in Mail(me).threads(None)
    ],
    "recent": lambda me, mem: [m.text for m in timeline.recent(me)],
    "recall": lambda me, mem: recall.search(me, "users salary").text,
    "ghost": lambda me, mem: refused(lambda: me.get("syn-2026-02-01-999")),
    "run": lambda me, mem: refused(lambda: me.get("run-1")),
    "claim": lambda me, mem: refused(lambda: me.claim("the docs")),
    "release": lambda me, mem: refused(lambda: me.release("layoffs 1")),
    "no agent": lambda me, mem: refused(lambda: Mail(me).send("nobody", "x")),
}
READS |= {
    f"did {name}": lambda me, mem, name=name: [m.text for m in timeline.agent_acts(me, name)]
    for name in ("cto", "hr", "peer", LOW)
}
READS |= {
    f"timeline {name}": lambda me, mem, name=name: timeline.timeline(me, name)
    for name in ("layoffs", "users")
}
READS |= {
    f"search {query} {more}": lambda me, mem, query=query, more=more: found(
        me.search(query, **more)
    )
    for query in ("users", "salary", "users salary", "layoffs", "fired users")
    for more in ({}, {"limit": 2}, {"author": "cto"}, {"archived": True}, {"tag": "layoffs"})
}
TOOLED = {
    f"tool {tool.name}": lambda me, mem, tool=tool: str(call(tool, me, ARGUMENTS[tool.name]))
    for tool in (*TOOLS, *CLIENTS)
    if tool.name
    in (
        ARGUMENTS := {
            "read": {"namespace": "secret/*"},
            "memory_search": {"query": "users salary"},
            "inbox": {},
            "briefing": {"budget": 400},
        }
    )
}
READS |= TOOLED


def found(hits):
    # in their order, without their scores
    told = [(hit.entry.body, hit.excerpt) for hit in hits]
    return told, hits.partial, hits.ranked, hits.note


def refused(act):
    try:
        return act()
    except synapse.SynapseError as error:
        return f"{type(error).__name__}: {error} {error.details}"


@pytest.fixture(scope="module")
def worlds():
    both = build(None, False), build(None, True)
    yield both
    for mem in both:
        mem.close()


def differing(worlds, asked, monkeypatch, tries=3):
    """Return in what the answers of the worlds differ, each time that they are asked: their words,
    or what the index was asked. What is due now and then by the clock differs once.
    """
    found = None
    for _ in range(tries):
        answers, queries = [], []
        for mem in worlds:
            READS[asked](mem.as_agent(LOW), mem)  # what is kept in memory is there
            rows = watched(mem, monkeypatch)
            answers.append(masked(READS[asked](mem.as_agent(LOW), mem)))
            queries.append(rows())
        now = {"the answer"} if answers[0] != answers[1] else set()
        if not asked.startswith(WALKS) and queries[0] != queries[1]:
            now.add("the work")
        found = now if found is None else found & now
        if not found:
            break
    return sorted(found)


@pytest.mark.parametrize("asked", READS)
def test_no_answer_and_no_count_differs(worlds, asked, monkeypatch):
    assert differing(worlds, asked, monkeypatch) == []


# Words are looked up in all texts, acts in the order of the log, and a glob in all namespaces, and
# what is found passes the gate then: how much work that is, says how much of it there is.
WALKS = ("staged", "search", "about", "recall", "did", "tool memory_search", "tool read")


def watched(mem, monkeypatch):
    """Return what tells which statements the index was asked, each with its rows."""
    asked = []
    run = Database.run

    def counted(self, name, *more, **lists):
        found = run(self, name, *more, **lists)
        asked.append(name)
        return found

    monkeypatch.setattr(Database, "run", counted)

    def told():
        monkeypatch.setattr(Database, "run", run)
        return asked

    return told


def test_the_two_worlds_differ(worlds):
    """What is compared above is not two worlds that are alike."""
    texts = [str(mem.as_agent("operator").read(limit=None).visible) for mem in worlds]
    assert texts[0] != texts[1]
    assert "salary" in str(page(worlds[1].as_agent("operator").read(limit=None)))


CURRENT = AgentMemory._current


def everything(me):
    """Return all entries of the workspace, those that this reader may not see too."""
    with me.store.snapshot() as snap:
        return snap.all(me.store.clock())


def counted(me, asked):
    page = CURRENT(me, asked)
    return Page(page.entries, page.cursor, lambda: len(everything(me)))


def ordered(me, asked):
    """Let entries that others may not see decide which of two is the first."""
    page = CURRENT(me, asked)
    secret = sum(entry.namespace.startswith("secret/") for entry in everything(me))
    entries = page.entries[::-1] if secret else page.entries
    return Page(entries, page.cursor, lambda: page.visible)


def filtered_late(me, asked):
    """Look at each entry there is, and ask afterwards whether the reader may see it."""
    with me.store.snapshot() as snap:
        for entry in everything(me):
            snap.record_fields(entry.id)
    return CURRENT(me, asked)


@pytest.mark.parametrize(
    ("leak", "found"),
    [(counted, "the answer"), (ordered, "the answer"), (filtered_late, "the work")],
)
def test_a_leak_is_found_out(worlds, monkeypatch, leak, found):
    monkeypatch.setattr(AgentMemory, "_current", leak)
    for asked in ("read {}", "read {'limit': None}", "read {'author': 'cto'}"):
        assert differing(worlds, asked, monkeypatch) == [found]


# -- the shell -------------------------------------------------------------------------------------

LINES = (
    "read --agent low",
    "read --agent low --json --limit 0",
    "read --agent low --json --author cto --tag layoffs",
    "read --agent low --json --namespace secret/*",
    "read --agent low --namespace secret/*",
    "read --agent low --namespace mail --author cto",
    "read --agent low --unread",
    "search --agent low users",
    "search --agent low salary",
    "view low --budget 300",
    "unread --agent low --json",
    "watch --agent low --json --since 0 --timeout 0",
    "log --agent low --limit 0",
    "log --agent low --json --limit 0",
    "what-did --agent low --json --limit 0 hr",
    "what-did --agent low --limit 0 cto",
    "what-did --agent low --limit 0 peer",
    "timeline --agent low --json layoffs",
    "recent --agent low --json --limit 0",
    "inbox --agent low",
    "poll --agent low --json",
    "threads --agent low --json --status all",
    "agents --json",
    "agents",
    "stats",
    "doctor --json",
    "verify --json",
    "where",
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The two worlds in files, under the same name."""
    roots = [tmp_path_factory.mktemp(name) / "memory" for name in ("plain", "hidden")]
    for root, hidden in zip(roots, (False, True), strict=True):
        build(root, hidden).close()
    return roots


@pytest.mark.parametrize("line", LINES)
def test_no_verb_of_a_run_tells_the_worlds_apart(folders, line, capsys, monkeypatch):
    monkeypatch.setenv("SYNAPSE_RUN", "run-low")
    monkeypatch.setenv("SYNAPSE_AGENT", LOW)
    answers = []
    for root in folders:
        capsys.readouterr()
        verb, *words = line.split()
        cli.main([verb, "--root", str(root), *words])
        answers.append(masked("".join(capsys.readouterr())).replace(str(root), "ROOT"))
    assert answers[0] == answers[1]
