"""The tools of the Cortex extension under the names and arguments that its callers know, on top of
our knowledge.

`cortex_tools.json` has their names and schemas; here is what each does. As `tools`, they act as a
seat and answer with text, a mistake too; the wiring to a server is somebody else's.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite

from synapse import tools
from synapse.agent_memory import AgentMemory
from synapse.errors import InvalidEntry, NotFound
from synapse.index.links import Link, links
from synapse.knowledge import memory
from synapse.mail.mailbox import Mail
from synapse.model.agents import OPERATOR
from synapse.model.entry import Entry
from synapse.model.kinds import ATOM, FACT, is_id
from synapse.system.typed import Any
from synapse.tools import CAPSULE, Arguments, Tool
from synapse.view import block

CATEGORY, GENERAL, INSIGHT = "category", "general", "insight"
URGENCIES = ("low", "medium", "high", "critical")
_WEIGHTY = ("decision", "decided", "lesson", "important", "insight", "never", "always")
_PARTS = ("subject", "action", "outcome", "consequences")
_FOLD = 100  # of a memory, what two of them are compared by beside their words


def offered() -> list[Tool]:
    """Return the tools, as their data file has them."""
    with open(
        os.path.join(os.path.dirname(__file__), "cortex_tools.json"), encoding="utf-8"
    ) as file:
        rows = json.load(file)
    return [
        Tool(row["name"], row["description"], row["schema"], *_CALLS[row["name"]])
        for row in rows
    ]


def call(
    tool: Tool, seat: AgentMemory, arguments: object, once: str | None = None
) -> str:
    """Return the tool's answer. Raises ToolProblem if the arguments do not fit or the memory
    refuses."""
    return tools.call(tool, seat, arguments, once)


# -- categories ------------------------------------------------------------------------


def _create_category(seat: AgentMemory, given: Arguments, once: str | None) -> str:
    name, category = (
        given["name"].strip().lower().replace(" ", "_"),
        _words(given["keywords"]),
    )
    categories = _categories(seat)
    if not name or not category:
        raise InvalidEntry("a category needs a name and at least one keyword")
    conflicts = [
        keyword
        for existing in categories.values()
        for keyword in existing["keywords"]
        if keyword in category
    ]
    if name in categories or conflicts:
        raise InvalidEntry(
            f"category {name} is there already"
            if name in categories
            else f"taken: {', '.join(conflicts)}"
        )
    text = json.dumps(
        {"name": name, "description": given["description"], "keywords": category},
        ensure_ascii=False,
    )
    memory.remember(
        seat,
        text,
        scope=_scope(seat),
        categories=(CATEGORY,),
        source="cortex",
        once=once,
    )
    return f"Category {name} made."


def _list_categories(seat: AgentMemory, given: Arguments, _: str | None) -> str:
    categories = _categories(seat).items()
    lines = [
        f"- {name}: {category['description']} ({', '.join(category['keywords'])})"
        for name, category in categories
    ]
    return _joined([f"{block.escaped(line)}\n" for line in lines], "no categories yet")


def _categories(seat: AgentMemory) -> dict[str, dict[str, Any]]:
    categories: dict[str, dict[str, Any]] = {}
    for entry in reversed(_facts(seat, (CATEGORY,))):
        try:
            row = json.loads(entry.body)
            categories.setdefault(
                str(row["name"]),
                {
                    "description": row["description"],
                    "keywords": _words(row["keywords"]),
                },
            )
        except (ValueError, TypeError, KeyError):
            continue  # a fact that only bears the name
    return categories


def _words(given: Iterable[str]) -> list[str]:
    return list(
        dict.fromkeys(keyword.strip().lower() for keyword in given if keyword.strip())
    )


# -- memories --------------------------------------------------------------------------


def _add(seat: AgentMemory, given: Arguments, once: str | None) -> str:
    content = given["content"]
    categories = _asked(given) or _fitting(seat, content)
    weight = given.get("importance") or _weight(content)
    entry = memory.remember(
        seat,
        content,
        scope=_scope(seat),
        categories=categories,
        importance=weight,
        source="cortex",
        once=once,
    )
    return f"Stored as {entry.id}: [{', '.join(categories)}] importance={weight:.1f}"


def _fitting(seat: AgentMemory, content: str) -> tuple[str, ...]:
    """Return the categories whose keywords occur in the content."""
    text, lowered = content.lower(), _categories(seat).items()
    return tuple(
        name
        for name, category in lowered
        if any(keyword in text for keyword in category["keywords"])
    ) or (GENERAL,)


def _weight(content: str) -> float:
    text = content.lower()
    return (
        3.0
        if "critical" in text
        else 2.0
        if any(keyword in text for keyword in _WEIGHTY)
        else 1.0
    )


def _stm(seat: AgentMemory, given: Arguments, _: str | None) -> str:
    facts = _facts(seat, _asked(given))[: _count(given, "limit", 10)]
    memory.used(seat, [entry.id for entry in facts])
    return _joined([_line(entry) for entry in facts], "nothing is remembered here")


def _line(entry: Entry) -> str:
    categories = ", ".join(entry.more.get("categories", ()))
    return (
        f"[{block.escaped(categories)}]"
        f" importance={entry.more.get('importance', 1):.1f}\n{block.whole(entry).text}"
    )


def _stats(seat: AgentMemory, given: Arguments, _: str | None) -> str:
    facts = _facts(seat, keep_categories=True)
    by_category = Counter(
        name for entry in facts for name in entry.more.get("categories", ())
    )
    by_source = Counter(entry.more.get("source", "agent") for entry in facts)
    messages = seat.read(namespace="mail", limit=0).visible
    lines = [
        f"memories: {len(facts)}",
        f"atoms: {len(_entries(seat, ATOM))}",
        f"messages: {messages}",
    ]
    lines += [
        f"by category: {_counted(by_category)}",
        f"by source: {_counted(by_source)}",
    ]
    return block.escaped("\n".join(lines))


def _counted(counts: Mapping[str, int]) -> str:
    return (
        ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"
    )


def _dedupe(seat: AgentMemory, given: Arguments, _: str | None) -> str:
    groups = _alike(
        _facts(seat, _asked(given)), given.get("similarity_threshold", 0.95)
    )
    if not groups:
        return "No duplicates."
    if given["action"] == "report":
        return _joined(["".join(map(_line, group)) + "\n" for group in groups], "")
    removed = 0
    for newest, *older in groups:
        if given["action"] == "merge":
            categories = dict.fromkeys(
                name
                for fact in (newest, *older)
                for name in fact.more.get("categories", ())
            )
            most = max(fact.more.get("importance", 1) for fact in (newest, *older))
            _again(seat, [newest, *older], newest.body, tuple(categories), most)
        else:
            for fact in older:
                memory.forget(seat, fact.id, f"says the same as {newest.id}")
        removed += len(older)
    return (
        f"{removed} duplicates {'merged' if given['action'] == 'merge' else 'forgotten'} in"
        f" {len(groups)} groups."
    )


def _alike(found: Sequence[Entry], least: float) -> list[list[Entry]]:
    """Return groups of facts with the same content, the newest of each first."""
    groups: list[tuple[set[str], str, list[Entry]]] = []
    for entry in found:
        text = " ".join(entry.body.lower().split())
        text_words = set(text.split())
        for members, fold, group in groups:
            shared = len(text_words & members) / len(text_words | members)
            if (
                text == fold
                or (text[:_FOLD] == fold[:_FOLD] and len(text) >= _FOLD)
                or shared >= least
            ):
                group.append(entry)
                break
        else:
            groups.append((text_words, text, [entry]))
    return [group for _, _, group in groups if len(group) > 1]


def _update(seat: AgentMemory, given: Arguments, _: str | None) -> str:
    if given.get("importance") is None and not given.get("categories"):
        raise InvalidEntry("name importance or categories")
    old = _memory(seat, given["memory_id"])
    new = _again(
        seat, [old], old.body, given.get("categories"), given.get("importance")
    )
    return (
        f"Updated: now {new.id}, [{', '.join(new.more['categories'])}]"
        f" importance={new.more['importance']:.1f}"
    )


def _edit(seat: AgentMemory, given: Arguments, _: str | None) -> str:
    if not given.get("append") and not given.get("replace"):
        raise InvalidEntry("name append or replace")
    old = _memory(seat, given["memory_id"])
    new = _again(
        seat, [old], given.get("replace") or f"{old.body}\n\n{given['append']}"
    )
    return f"{'Replaced' if given.get('replace') else 'Appended'}: now {new.id}"


def _move(seat: AgentMemory, given: Arguments, _: str | None) -> str:
    if not given["to_categories"]:
        raise InvalidEntry("name at least one category")
    old = _memory(seat, given["memory_id"])
    new = _again(seat, [old], old.body, given["to_categories"])
    return f"Moved to [{', '.join(given['to_categories'])}]: now {new.id}"


def _again(
    seat: AgentMemory,
    olds: Sequence[Entry],
    body: str,
    categories: Iterable[str] | None = None,
    weight: float | None = None,
) -> Entry:
    """Write a new version that replaces the old ones and has their sources."""
    old, extra = olds[0], olds[0].more
    kind, _, name = old.namespace.partition("/")
    scope = {"agents": "agent", "groups": f"group:{name}"}.get(kind, "global")
    return memory.remember(
        seat,
        body,
        scope=scope,
        categories=tuple(categories or extra.get("categories", (GENERAL,))),
        importance=extra.get("importance", 1.0) if weight is None else weight,
        cites=(*old.derived_from, *extra.get("cites", ())),
        supersedes=tuple(fact.id for fact in olds),
        source=extra.get("source", "cortex"),
        to=old.addressees,
    )


def _memory(seat: AgentMemory, name: str) -> Entry:
    """Return a memory by its id, or by words that only it contains."""
    if is_id(name):
        entry = seat.get(name)
        if entry.kind != FACT:
            raise NotFound(f"{name} is no memory", id=name)
        return entry
    facts = (
        [entry for entry in _facts(seat) if name.lower() in entry.body.lower()]
        if name.strip()
        else []
    )
    if len(facts) != 1:
        raise NotFound(
            f"{len(facts)} memories hold {name!r}: give an id"
            if facts
            else f"no memory holds {name!r}"
        )
    return facts[0]


def _predict(seat: AgentMemory, given: Arguments, _: str | None) -> str:
    least = given.get("urgency_min", "low")
    if least not in URGENCIES:
        raise InvalidEntry(f"urgency_min is one of {', '.join(URGENCIES)}")
    insights = _facts(seat, (INSIGHT,))
    if given.get("query"):
        near = {hit.id for hit in seat.search(given["query"], kind=FACT, limit=200)}
        insights = [entry for entry in insights if entry.id in near]
    sources = set(given.get("sources") or ())
    insights = [entry for entry in insights if not sources or entry.author in sources]
    insights = [
        entry
        for entry in insights
        if URGENCIES.index(_urgency(entry)) >= URGENCIES.index(least)
    ]
    lines = [
        f"[{_urgency(entry).upper()}] {block.whole(entry).text}" for entry in insights
    ]
    if given.get("include_queue") and seat.id != OPERATOR:
        lines += [
            f"[UNREAD] {block.whole(message.entry).text}"
            for message in Mail(seat).inbox()
        ]
    return _joined(lines[: _count(given, "limit", 5)], "no insight bears on that")


def _urgency(entry: Entry) -> str:
    return URGENCIES[min(3, max(0, int(entry.more.get("importance", 1) * 2) - 2))]


# -- atoms -----------------------------------------------------------------------------


def _create_atom(seat: AgentMemory, given: Arguments, once: str | None) -> str:
    entry = memory.atom(
        seat,
        *(given[name] for name in _PARTS),
        scope=_scope(seat),
        confidence=given.get("confidence", 1.0),
        source=given.get("source", "agent"),
        once=once,
    )
    return f"Stored as {entry.id}."


def _search_atoms(seat: AgentMemory, given: Arguments, _: str | None) -> str:
    field = given["field"]
    if field not in _PARTS:
        raise InvalidEntry(f"field is one of {', '.join(_PARTS)}")
    atoms = _with(seat, field, given["query"], given.get("threshold", 0.5))[
        : _count(given, "limit", 10)
    ]
    memory.used(seat, [entry.id for entry in atoms])
    return _joined([block.whole(entry).text for entry in atoms], "no atom says that")


def _with(seat: AgentMemory, field: str, query: str, least: float) -> list[Entry]:
    """Return the atoms whose field matches enough of the question, best match first."""
    query_words = set(query.lower().split())
    if not query_words:
        raise InvalidEntry("the query is empty")
    scored: list[tuple[float, int, Entry]] = []
    for hit in seat.search(query, kind=ATOM, limit=200):
        text = hit.entry.more.get(field, "").lower()
        share = sum(query_word in text for query_word in query_words) / len(query_words)
        if share >= least:
            scored.append((-share, len(scored), hit.entry))
    return [entry for *_, entry in sorted(scored)]


def _find_causes(seat: AgentMemory, given: Arguments, _: str | None) -> str:
    depth = _count(given, "max_depth", 10)
    if given.get("outcome"):
        start = [entry.id for entry in _with(seat, "outcome", given["outcome"], 0.5)]
    elif given.get("atom_id"):
        start = [_atom_of(seat, given["atom_id"]).id]
    else:
        raise InvalidEntry("name atom_id or outcome")
    roots = _roots(seat, start, depth)
    lines = [
        f"[depth {steps}] {block.whole(seat.get(id)).text}"
        for id, steps in roots.items()
    ]
    return _joined(lines, "nothing is known to cause it")


def _atom_of(seat: AgentMemory, id: str) -> Entry:
    entry = seat.get(id)
    if entry.kind != ATOM:
        raise NotFound(f"{id} is no atom", id=id)
    return entry


def _roots(seat: AgentMemory, begun: Iterable[str], depth: int) -> dict[str, int]:
    """Return the first causes from which a chain leads here, with their distance in steps."""
    layer, visited, roots = list(begun), set(begun), {}
    for steps in range(depth + 1):
        further: list[str] = []
        for id in layer:
            causes = [edge.cause for edge in _links(seat, id) if edge.effect == id]
            causes = [cause for cause in causes if memory.sees(seat, cause)]
            if not causes and steps:
                roots[id] = steps
            further += [cause for cause in causes if cause not in visited]
            visited.update(causes)
        layer = further
    return roots


def _links(seat: AgentMemory, id: str) -> list[Link]:
    with seat.store.snapshot(late=True) as snap:
        return links(snap, id)


def _link(seat: AgentMemory, given: Arguments, _: str | None) -> str:
    type, strength = given.get("link_type", "causes"), given.get("strength", 0.5)
    stored = memory.link(
        seat, given["from_atom_id"], given["to_atom_id"], type, strength
    )
    return f"{stored.cause} {stored.type} {stored.effect} ({stored.strength:g})"


def _atom_stats(seat: AgentMemory, given: Arguments, _: str | None) -> str:
    atoms = _entries(seat, ATOM)
    ids = {entry.id for entry in atoms}
    by_ends = {
        (edge.cause, edge.effect): edge for id in ids for edge in _links(seat, id)
    }
    types = Counter(edge.type for pair, edge in by_ends.items() if ids.issuperset(pair))
    sure = (
        sum(entry.more.get("confidence", 1.0) for entry in atoms) / len(atoms)
        if atoms
        else 0
    )
    lines = [
        f"atoms: {len(atoms)}",
        f"links: {_counted(types)}",
        f"confidence: {sure:.2f} on average",
    ]
    return "\n".join(lines)


# -- below -----------------------------------------------------------------------------


def _entries(seat: AgentMemory, kind: str) -> list[Entry]:
    """Return all entries of a kind that this agent may see, newest first."""
    return [entry for entry in seat.read(limit=None) if entry.kind == kind]


def _facts(
    seat: AgentMemory, categories: Sequence[str] = (), *, keep_categories: bool = False
) -> list[Entry]:
    """Return the memories of these categories, or of all. Those that only declare a category must
    be asked for."""
    facts = []
    for entry in _entries(seat, FACT):
        labels = entry.more.get("categories", ())
        if (
            any(name in categories for name in labels)
            if categories
            else (keep_categories or CATEGORY not in labels)
        ):
            facts.append(entry)
    return facts


def _asked(given: Arguments) -> tuple[str, ...]:
    return tuple(
        given.get("categories")
        or ([given["category"]] if given.get("category") else ())
    )


def _scope(seat: AgentMemory) -> str:
    """Return the scope of a new memory: the team of an agent that has exactly one, else the
    agent."""
    agent = seat.agent
    groups = agent.groups if agent else ()
    return f"group:{groups[0]}" if len(groups) == 1 else "agent"


def _count(given: Arguments, name: str, otherwise: int) -> int:
    """Read a number of items; JSON also allows infinity, which is refused."""
    return (
        max(0, min(10_000, int(value)))
        if isfinite(value := given.get(name, otherwise))
        else otherwise
    )


def _joined(lines: Sequence[str], otherwise: str) -> str:
    """Return as many lines as fit into an answer; the last says how many there are."""
    count, size = 0, 0
    for line in lines:
        size += len(line.encode())
        if size > CAPSULE - 60:
            break
        count += 1
    remainder = (
        f"({count} of {len(lines)} shown; ask for fewer)\n"
        if count < len(lines)
        else ""
    )
    return "".join(lines[:count]) + remainder or otherwise


_CALLS: Mapping[
    str, tuple[Callable[[AgentMemory, Arguments, str | None], str], bool]
] = {
    "cortex_create_category": (_create_category, True),
    "cortex_list_categories": (_list_categories, False),
    "cortex_add": (_add, True),
    "cortex_stm": (_stm, False),
    "cortex_stats": (_stats, False),
    "cortex_dedupe": (_dedupe, True),
    "cortex_update": (_update, True),
    "cortex_edit": (_edit, True),
    "cortex_move": (_move, True),
    "cortex_predict": (_predict, False),
    "atom_create": (_create_atom, True),
    "atom_search": (_search_atoms, False),
    "atom_find_causes": (_find_causes, False),
    "atom_link": (_link, True),
    "atom_stats": (_atom_stats, False),
}
