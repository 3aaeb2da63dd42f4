"""The acts of knowledge and of time: facts, atoms, links, trails, recall, timelines."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from synapse.acts.act import LARGEST, Act, Answer
from synapse.acts.answers import ENTRY, rows
from synapse.history import timeline as times
from synapse.history.timeline import Moment
from synapse.index.questions.links import Link
from synapse.knowledge import memory, provenance
from synapse.knowledge import recall as recalls
from synapse.knowledge.capsule import Capsule
from synapse.knowledge.provenance import Step
from synapse.model.results import Rows
from synapse.wire import parse
from synapse.wire.forms import entries_json, fields

NOUN, TIMES = "knowledge", "history"
EARLIEST = "000000000000"  # of any time, in microseconds


def _step(form: Mapping[str, Any]) -> Step:
    return parse.fields(Step, {**form, "sources": tuple(map(_step, form["sources"]))})


def _moments_json(moments: Rows[Moment]) -> dict[str, Any]:
    return {"moments": fields(moments), "next": moments.next}


def _moments(form: Mapping[str, Any]) -> Rows[Moment]:
    moments = (parse.fields(Moment, moment) for moment in form["moments"])
    return Rows(moments, form.get("next"))  # an older server names none


def _capsule(form: Mapping[str, Any]) -> Capsule:
    return parse.fields(Capsule, {**form, "shown": tuple(parse.entries(form["shown"]))})


def _capsule_json(capsule: Capsule) -> dict[str, Any]:
    return {**capsule._asdict(), "shown": entries_json(capsule.shown)}


LINK = Answer("Link", fields, partial(parse.fields, Link))
LINKS = rows("Links", "links", fields, LINK.parse)
STEP = Answer("Step", fields, _step)
CAPSULE = Answer("Capsule", _capsule_json, _capsule)
MOMENTS = Answer("Moments", _moments_json, _moments)

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
