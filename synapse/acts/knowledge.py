"""The acts of knowledge and of time: facts, atoms, links, trails, recall, timelines."""

from __future__ import annotations

from synapse.acts.act import LARGEST, Act
from synapse.acts.answers import CAPSULE, ENTRY, LINK, LINKS, MOMENTS, STEP
from synapse.history import timeline as times
from synapse.knowledge import memory, provenance
from synapse.knowledge import recall as recalls

NOUN, TIMES = "knowledge", "history"
EARLIEST = "000000000000"  # of any time, in microseconds

remember = Act(NOUN, memory.remember, "POST /facts", ENTRY, creates=True)
atom = Act(NOUN, memory.atom, "POST /atoms", ENTRY, creates=True)
link = Act(NOUN, memory.link, "POST /links", LINK)
links_of = Act(NOUN, memory.links_of, "GET /atoms/{id}/links", LINKS, title="links")
forget = Act(NOUN, memory.forget, "POST /knowledge/{id}/forget", ENTRY)
why = Act(NOUN, provenance.why, "GET /why/{id}", STEP, limits={"depth": (1, provenance.DEPTH)})
recall = Act(
    NOUN,
    recalls.search,
    "GET /recall",
    CAPSULE,
    title="recall",
    names={"query": "q"},
    limits={"top_k": (1, 1_000)},
    problems=(502,),
)
recent = Act(
    TIMES,
    times.recent,
    "GET /recent",
    MOMENTS,
    names={"kinds": "kind"},
    absent={"limit": LARGEST, "since": EARLIEST},
)
agent_acts = Act(
    TIMES, times.agent_acts, "GET /agents/{id}/acts", MOMENTS, title="acts", names={"agent": "id"}
)
timeline = Act(TIMES, times.timeline, "GET /timeline/{project}", MOMENTS)
