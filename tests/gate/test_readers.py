"""Every public reader has a row in a table that says how it is walked, or why it gives out no entry.

A reader without a row fails; so does a row's parameter that the walk never uses.
"""

import inspect
import os
import re
import shutil

import pytest

import synapse
from synapse.agent_memory import AgentMemory
from synapse.authority import visible
from synapse.cli.frame.program import Verb
from synapse.cli.verbs import VERBS
from synapse.compat import shared
from synapse.compat.brain import UnifiedBrain
from synapse.compat.shared import SharedMemoryStore
from synapse.errors import Forbidden
from synapse.index import pages
from synapse.index.database import Database, load_sql
from synapse.index.full_text.search import holding
from synapse.knowledge import recall
from synapse.model.agents import Agent
from tests.gate.test_brain import BRAIN
from tests.gate.test_mail import MAIL_READERS_PASS, MAILED, mail_faults
from tests.gate.test_memory import READERS_PASS, SEAT, faults
from tests.gate.test_recall import RECALL
from tests.gate.test_shared import SHARED
from tests.gate.test_shell import SHELL, unasked
from tests.gate.world import NONE, WHOLE

MEMORY = {
    "agents": NONE,
    "as_agent": "gives the seat, whose methods are walked",
    "audit": WHOLE,
    "close": NONE,
    "digest": NONE,
    "export": WHOLE,
    "import_": WHOLE,
    "last_seen": NONE,
    "rebuild": NONE,
    "register": WHOLE,
    "questions": WHOLE,
    "repair": WHOLE,
    "tell": WHOLE,
    "verify": NONE,
}
VALUE = "a value; reads nothing"
ERROR = "an error; what it says is compared by `refusals`"
PUBLIC = {
    "Memory": "its methods have rows in MEMORY",
    "AgentMemory": "its methods have rows in SEAT",
    "Seat": "the older name of AgentMemory",
    "Mail": "its methods have rows in MAILED",
    "SharedMemoryStore": "its methods have rows in SHARED",
    "UnifiedBrain": "its methods have rows in BRAIN",
    "RemoteMemory": "asks a server; the shell over it is walked in test_remote.py",
    "connect": "gives a RemoteMemory",
    "init": "gives a Memory",
    "open": "gives a Memory",
    "find": "gives a path",
    **dict.fromkeys(
        (
            "Agent Claim Draft Entry Event Fate Hit Hits Message Page Problem Rebuilt"
            " Report Settings Skill Thread View"
        ).split(),
        VALUE,
    ),
    **dict.fromkeys((name for name in synapse.__all__ if name.endswith("Error")), ERROR),
    **dict.fromkeys(
        "Conflict Forbidden InvalidEntry InvalidQuery NewerProtocol NoKey NotFound NotTrusted"
        " OverBudget QueueFull ReadOnly"
        " IndexDamaged StoreBusy StoreCorrupt".split(),
        ERROR,
    ),
}
# Statements that pick entries for a reader carry the gate in themselves. The others say why they
# need none.
SEEN = "the fragment `seen`"
HEARD = "the fragment `heard`: as `seen`, without what the reader wrote itself"
GATED = {
    **dict.fromkeys(
        "history threads_active threads_any thread_rows"
        " page_all page_paged page_weighty page_critical page_filtered lane count"
        " count_since peers search_together search_author search_rows"
        " past_page past_peers".split(),
        SEEN,
    ),
    "lane_own": "e.aid = :me",
    "lane_addressed": "e.audience in ({audiences})",
    "unread": HEARD,
    "unread_paged": HEARD,
    **dict.fromkeys(("left_since", "fresh", "fresh_counts"), HEARD),
    "inbox": HEARD,
    "poll": HEARD,
    "census": HEARD,
}
PICKED = "the text at places that a gated statement picked, or that passed `visible` one by one"
NUMBER = "a number, of no entry in particular"
OWN = "what the log and the projection ask of themselves"
UNGATED = {
    **dict.fromkeys(
        ("trace", "lost_between"),
        "places and times, for whether the journal is the one that was indexed",
    ),
    "foreign_records": "places of records that count for nothing, for a person who accepts them",
    "foreign_holder": "whether an id is taken by one of those",
    "rows": PICKED,
    "past_rows": PICKED,
    "past_disputed": PICKED,
    "past_agents": "declarations, for who an agent was then",
    "texts": PICKED,
    **dict.fromkeys(
        "in_dispute disputed_between receipts_of acks_of reactions_of places".split(), PICKED
    ),
    "row": PICKED,
    "fate": PICKED,
    "id_of": PICKED,
    "bodies": PICKED,
    "every": "for export, the operator's",
    **dict.fromkeys(("criticals", "tellings"), "for the report on wakes, the operator's"),
    "acts": "for audit, the operator's; `log` asks the seat for each entry",
    "staged": "asked of the seat one by one",
    "made_of": "for containment: whoever taints is asked of each entry whether it may rule on it",
    **dict.fromkeys(
        ("keyed_entries", "standing"), "for a supervisor, which asks `visible` of each"
    ),
    "keyed_since": "changes of files, for the sessions in that work tree; no text of an entry",
    "conditional": NUMBER,
    **dict.fromkeys(("entries_around", "last_act_at", "fates_changed"), NUMBER),
    **dict.fromkeys(
        "idle outdone lapsed comparable mergeable brought_back filings_of held_by"
        " weights counts_by_author of_night nights"
        " written_since told in_dispute_now sized long received busy lived superseded"
        " critical_acts citing critical"
        " seen_by reviews".split(),
        "for consolidation, the operator's",
    ),
    **dict.fromkeys(
        ("act_of", "approvals_of", "last_ruling"),
        "acts by number, for `undo`: the operator's, or those of its agent",
    ),
    "embeddable": "the texts that go to the embedder, which the operator chose; to no reader",
    "embeddable_count": NUMBER,
    **dict.fromkeys(
        (
            "any_taint is_tainted floor_of last_night version keys swept next_change act_at hidden shown"
            " seen_between lane_counts last_active written_lately"
        ).split(),
        NUMBER,
    ),
    **dict.fromkeys(("last_entry", "lengths", "ceiling_of"), NUMBER),
    **dict.fromkeys(
        ("holding", "long_since", "weighed_since", "around"),
        "places of entries: of those that pass `search_rows`, and of no others, anything is said",
    ),
    **dict.fromkeys(
        "tainted_by by_author exposed shown_to run_edges blockers run runs runs_count tops runs_below"
        " run_times deliveries".split(),
        "runs, counts and ids, for whoever runs the team; no text of an entry",
    ),
    "ids_alike": "ids; whoever asks is asked of each whether it sees it",
    **dict.fromkeys(("touched", "naming", "tainters"), OWN),
    "links_of": "ids of atoms; whoever asks sees one end, and is asked whether it sees the other",
    "uses_of": NUMBER,
    **dict.fromkeys(
        (
            "namespaces last_namespace covered nid_of aid_of audiences agent agents authors get_meta token_counts thread_of"
            " tags_of_thread"
        ).split(),
        "names, not entries",
    ),
    **dict.fromkeys(
        "minted names names_in_thread first_once keyed unworded all_voids is_void refiled"
        " place_of rivals_by_topic released released_by"
        " rivals_by_heirs".split(),
        OWN,
    ),
}
WRITES = ("insert", "update", "delete")


def public(kind):
    return {
        name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))
    }


def own(module):
    """The public functions that a module has of its own."""
    functions = {name: each for name, each in vars(module).items() if inspect.isfunction(each)}
    return {
        name
        for name, each in functions.items()
        if not name.startswith("_") and each.__module__ == module.__name__
    }


def unlisted(found, *tables):
    """Readers without a row, and rows without a reader."""
    return set(found) ^ {name for table in tables for name in table}


def unwalked(kind, table=None, *other):
    """The parameters of readers that no walk passes."""
    return {
        f"{name}({parameter})"
        for name, passed in (table or READERS_PASS).items()
        for parameter in inspect.signature(getattr(kind, name)).parameters
        if parameter not in ("self", *passed, *other)
    }


def ungated(statements):
    """Statements that read without having a row, or that should carry the gate and do not."""
    readers = {name: text for name, text in statements.items() if not text.startswith(WRITES)}
    fragments = {SEEN: load_fragment("seen"), HEARD: load_fragment("heard")}
    gates = {name: fragments.get(gate, gate) for name, gate in GATED.items()}
    missing = {name for name, gate in gates.items() if gate not in readers.get(name, "")}
    return missing | unlisted(readers, GATED, UNGATED)


def load_fragment(name):
    path = os.path.join(os.path.dirname(inspect.getfile(Database)), "queries.sql")
    with open(path, encoding="utf-8") as file:
        return file.read().partition(f"-- fragment: {name}\n")[2].partition("\n-- ")[0].strip()


def in_order(parts, text):
    place = 0
    for part in parts:
        place = text.find(part, place)
        if place < 0:
            return False
    return True


def test_every_public_reader_has_a_row():
    assert unlisted(public(AgentMemory), SEAT) == set()
    assert unlisted(public(synapse.Mail), MAILED) == set()
    assert unwalked(synapse.Mail, MAIL_READERS_PASS, "mark") == set()
    assert unlisted(public(synapse.Memory), MEMORY) == set()
    assert unlisted(public(UnifiedBrain), BRAIN) == set()
    assert unlisted(own(recall), [name for name in RECALL if name != "cites"]) == set()
    assert unlisted(public(SharedMemoryStore), SHARED) == set()
    assert unlisted(own(shared), ["recall_tools", "always"]) == set()
    assert unlisted(synapse.__all__, PUBLIC) == set()
    assert unlisted(VERBS, SHELL) == set()
    assert unwalked(AgentMemory) == set()
    assert unasked() == set()
    assert ungated(load_sql("queries.sql")) == set()


def test_a_reader_without_a_row_fails(tmp_path):
    class Peeking(AgentMemory):
        def peek(self, id):
            """A new reader."""

        def read(self, *, raw=False):
            """A new way to ask."""

    assert unlisted(public(Peeking), SEAT) == {"peek"}
    assert unlisted({*synapse.__all__, "peek"}, PUBLIC) == {"peek"}
    assert unlisted({**VERBS, "peek": Verb("peek", "write", "reading", "", "")}, SHELL) == {"peek"}
    assert unwalked(Peeking) == {"read(raw)"}
    source = os.path.join(os.path.dirname(inspect.getfile(Database)), "queries.sql")
    for more, name in (
        ("-- name: peek\nselect body from texts\n", "peek"),
        ("-- name: page_all\nselect e.seq, e.rec, e.rev from entries e\n", "page_all"),
    ):
        shutil.copy(source, tmp_path / "queries.sql")
        with (tmp_path / "queries.sql").open("a", encoding="utf-8") as file:
            file.write("\n" + more)
        assert ungated(load_sql(str(tmp_path / "queries.sql"))) == {name}


def test_every_gated_statement_runs_in_the_walk(world, fresh, monkeypatch):
    """Any of the agents may be the one that runs it: some, and the operator, are enough."""
    ran = set()
    fresh.mem.store.index.db.connection.set_trace_callback(ran.add)
    marked = fresh.mem.as_agent("eng-a")
    page = marked.read(limit=1, mark=True)
    assert marked.unread() == len({entry.id for entry in marked.read(unread=True)} - {page[0].id})
    fresh.mem.store.index.db.connection.set_trace_callback(None)
    world.mem.store.index.db.connection.set_trace_callback(ran.add)
    for talkative in (1.0, 0.0):
        monkeypatch.setattr(pages, "_TALKATIVE", talkative)
        for reader in ("lead", "eng-b", "deaf", "operator"):
            me = AgentMemory(world.mem.store, reader)
            for name in ("read", "search", "unread", "get", "briefing"):
                assert list(faults(world, me, name)) == []
            with world.mem.store.snapshot(words=True) as snap:
                for known in world.known:
                    found = holding(snap, me.agent, known.word, world.mem.store.clock(), 9)
                    assert all(visible(entry, me.agent) for entry in found)
            for name in ("inbox", "threads"):
                assert list(mail_faults(world, synapse.Mail(me), name)) == []
    world.mem.store.index.db.connection.set_trace_callback(None)
    statements = load_sql("queries.sql")
    shapes = {name: re.split(r"\{\w+\}|:\w+", statements[name]) for name in GATED}
    assert {
        name for name, shape in shapes.items() if not any(in_order(shape, text) for text in ran)
    } == set()


def test_what_tells_of_no_entry_tells_of_none(world):
    for name in [name for name, why in MEMORY.items() if why == NONE and name != "close"]:
        told = repr(getattr(world.mem, name)())
        assert [known for known in world.known if known.id in told or known.word in told] == []


@pytest.mark.parametrize("name", [name for name, why in MEMORY.items() if why == WHOLE])
def test_a_spawned_run_does_not_get_the_operator_s_acts(world, monkeypatch, name):
    monkeypatch.setenv("SYNAPSE_RUN", "run-1")
    monkeypatch.setenv("SYNAPSE_AGENT", "eng-c")
    given = {"register": (Agent("new"),), "import_": ([],), "tell": ("lead", "x")}.get(name, ())
    with pytest.raises(Forbidden):
        list(getattr(world.mem, name)(*given))
