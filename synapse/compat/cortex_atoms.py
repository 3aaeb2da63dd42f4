"""The Cortex tools on atoms: create, search, link, and find causes. Called by `cortex_tools`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from synapse.agent_memory import AgentMemory
from synapse.compat.cortex import PARTS
from synapse.compat.cortex_answers import (
    default_scope,
    entries_of_kind,
    format_counts,
    join_lines,
    read_count,
)
from synapse.errors import InvalidEntry, NotFound
from synapse.index.questions.links import Link, links
from synapse.knowledge import memory
from synapse.model.entry import Entry
from synapse.model.kinds import ATOM
from synapse.tools import Arguments
from synapse.view import block


def create_atom(agent_memory: AgentMemory, arguments: Arguments, once: str | None) -> str:
    entry = memory.atom(
        agent_memory,
        *(arguments[name] for name in PARTS),
        scope=default_scope(agent_memory),
        confidence=arguments.get("confidence", 1.0),
        source=arguments.get("source", "agent"),
        once=once,
    )
    return f"Stored as {entry.id}."


def search_atoms(agent_memory: AgentMemory, arguments: Arguments, _: str | None) -> str:
    field = arguments["field"]
    if field not in PARTS:
        raise InvalidEntry(f"field is one of {', '.join(PARTS)}")
    atoms = _matching(agent_memory, field, arguments["query"], arguments.get("threshold", 0.5))[
        : read_count(arguments, "limit", 10)
    ]
    memory.used(agent_memory, [entry.id for entry in atoms])
    return join_lines([block.whole(entry).text for entry in atoms], "no atom says that")


def _matching(agent_memory: AgentMemory, field: str, query: str, least: float) -> list[Entry]:
    """Return the atoms whose field matches enough of the question, best match first."""
    query_words = set(query.lower().split())
    if not query_words:
        raise InvalidEntry("the query is empty")
    scored: list[tuple[float, int, Entry]] = []
    for hit in agent_memory.search(query, kind=ATOM, limit=200):
        text = hit.entry.more.get(field, "").lower()
        share = sum(query_word in text for query_word in query_words) / len(query_words)
        if share >= least:
            scored.append((-share, len(scored), hit.entry))
    return [entry for *_, entry in sorted(scored)]


def find_causes(agent_memory: AgentMemory, arguments: Arguments, _: str | None) -> str:
    depth = read_count(arguments, "max_depth", 10)
    if arguments.get("outcome"):
        start = [
            entry.id for entry in _matching(agent_memory, "outcome", arguments["outcome"], 0.5)
        ]
    elif arguments.get("atom_id"):
        start = [_atom(agent_memory, arguments["atom_id"]).id]
    else:
        raise InvalidEntry("name atom_id or outcome")
    roots = _roots(agent_memory, start, depth)
    lines = [
        f"[depth {steps}] {block.whole(agent_memory.get(id)).text}" for id, steps in roots.items()
    ]
    return join_lines(lines, "nothing is known to cause it")


def _atom(agent_memory: AgentMemory, id: str) -> Entry:
    entry = agent_memory.get(id)
    if entry.kind != ATOM:
        raise NotFound(f"{id} is not an atom", id=id)
    return entry


def _roots(agent_memory: AgentMemory, start_ids: Iterable[str], depth: int) -> dict[str, int]:
    """Return the first causes from which a chain leads here, with their distance in steps."""
    layer, visited, roots = list(start_ids), set(start_ids), {}
    for steps in range(depth + 1):
        further: list[str] = []
        for id in layer:
            causes = [edge.cause for edge in _links(agent_memory, id) if edge.effect == id]
            causes = [cause for cause in causes if memory.sees(agent_memory, cause)]
            if not causes and steps:
                roots[id] = steps
            further += [cause for cause in causes if cause not in visited]
            visited.update(causes)
        layer = further
    return roots


def _links(agent_memory: AgentMemory, id: str) -> list[Link]:
    with agent_memory.store.snapshot(late=True) as snap:
        return links(snap, id)


def link_atoms(agent_memory: AgentMemory, arguments: Arguments, _: str | None) -> str:
    type = arguments.get("link_type", "causes")
    strength = arguments.get("strength", 0.5)
    stored = memory.link(
        agent_memory, arguments["from_atom_id"], arguments["to_atom_id"], type, strength
    )
    return f"{stored.cause} {stored.type} {stored.effect} ({stored.strength:g})"


def atom_stats(agent_memory: AgentMemory, arguments: Arguments, _: str | None) -> str:
    atoms = entries_of_kind(agent_memory, ATOM)
    ids = {entry.id for entry in atoms}
    by_ends = {(edge.cause, edge.effect): edge for id in ids for edge in _links(agent_memory, id)}
    types = Counter(edge.type for pair, edge in by_ends.items() if ids.issuperset(pair))
    sure = sum(entry.more.get("confidence", 1.0) for entry in atoms) / len(atoms) if atoms else 0
    lines = [
        f"atoms: {len(atoms)}",
        f"links: {format_counts(types)}",
        f"confidence: {sure:.2f} on average",
    ]
    return "\n".join(lines)
