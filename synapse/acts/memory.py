"""The acts of an agent's memory: entries, rulings, what reaches the agent, search, claims."""

from __future__ import annotations

from synapse.acts.act import LARGEST, READER, Act, Answer
from synapse.acts.answers import ENTRIES, ENTRY, IDS, field
from synapse.agent_memory import AgentMemory
from synapse.wire import parse
from synapse.wire.forms import fields, hits_json, page_wire, view_json

WRITING, RULING, READING, FINDING, LEASES = "entries", "rulings", "briefing", "search", "claims"
PAGE = Answer("Page", page_wire, parse.page)
HITS = Answer("Hits", hits_json, parse.hits)
VIEW = Answer("View", lambda view: view_json(view, None), parse.view)
CLAIM = Answer("Claim", fields, parse.claim)
FATE = field("FateOf", "fate", parse.fate, fields)
COUNT = field("Unread", "unread", int)
BUDGET = {"budget": (1, 10_000_000)}
QUERY = {"query": "q"}
HITS_MOST = {"limit": (1, LARGEST)}

append = Act(
    WRITING,
    AgentMemory.append,
    "POST /entries",
    ENTRY,
    creates=True,
    operation="append_entry",
    problems=(409,),
)
read = Act(
    WRITING,
    AgentMemory.read,
    "GET /entries",
    PAGE,
    limits=BUDGET,
    description="Return the live entries that this agent may see, newest first; with `unread` those"
    " that it was not shown, the most urgent first, and of these what fits into `budget` tokens."
    " Reading writes nothing: `POST /v1/shown` notes what reached the reader.",
)
get = Act(WRITING, AgentMemory.get, "GET /entries/{id}", ENTRY, operation="get_entry")
fate = Act(WRITING, AgentMemory.fate, "GET /entries/{id}/fate", FATE, operation="get_fate")

resolve = Act(
    RULING, AgentMemory.resolve, "POST /entries/{id}/resolve", ENTRY, operation="resolve_entry"
)
vouch = Act(RULING, AgentMemory.vouch, "POST /entries/{id}/vouch", ENTRY)
approve = Act(RULING, AgentMemory.approve, "POST /entries/{id}/approve", ENTRY)
reject = Act(RULING, AgentMemory.reject, "POST /entries/{id}/reject", ENTRY)
staged = Act(RULING, AgentMemory.staged, "GET /staged", ENTRIES)
archive = Act(RULING, AgentMemory.archive, "POST /archive", ENTRIES)
restore = Act(RULING, AgentMemory.restore, "POST /restore", ENTRIES)

briefing = Act(
    READING,
    AgentMemory.briefing,
    "GET /briefing",
    VIEW,
    limits={**BUDGET, "until": (0, 2**53)},
    description="Return what the agent should know now, within a number of tokens; its text alone"
    " to who accepts `text/markdown`. `about` is the text of a task: what its words find stands"
    " whole at the end. `without` are ids of entries that the reader has already.",
    problems=(404,),
)
later = Act(READING, AgentMemory.later, "GET /later", ENTRIES, problems=(404,))
unread = Act(READING, AgentMemory.unread, "GET /unread", COUNT)
ack = Act(
    READING, AgentMemory.ack, "POST /acks", IDS, limits={"ids": (0, 10_000)}, problems=(404, 409)
)

search = Act(FINDING, AgentMemory.search, "GET /search", HITS, names=QUERY, limits=HITS_MOST)
search_long = Act(
    FINDING,
    AgentMemory.search,
    "POST /search",
    HITS,
    who=READER,
    names=QUERY,
    limits=HITS_MOST,
    title="search_long",
    description="Return the same for a question in a body. Nothing is written.",
)

claim = Act(LEASES, AgentMemory.claim, "POST /claims", CLAIM)
release = Act(LEASES, AgentMemory.release, "POST /claims/release", CLAIM)
