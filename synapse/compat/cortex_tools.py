"""The Cortex tools on categories and memories, under the names that their callers know.

Each tool acts as one agent and returns text; errors are text too. `cortex_tools.json` has their
names and schemas. Served by `synapse.mcp`.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from synapse import tools
from synapse.agent_memory import AgentMemory
from synapse.compat import cortex_atoms
from synapse.compat.cortex_answers import (
    default_scope,
    entries_of_kind,
    format_counts,
    join_lines,
    read_count,
)
from synapse.errors import InvalidEntry, NotFound
from synapse.knowledge import memory
from synapse.mail.mailbox import Mail
from synapse.model.agents import OPERATOR
from synapse.model.entry import Entry
from synapse.model.kinds import ATOM, FACT, is_id
from synapse.system.quoting import inline
from synapse.system.typed import Any
from synapse.tools import Arguments, Tool
from synapse.view import block

CATEGORY, GENERAL, INSIGHT = "category", "general", "insight"
URGENCIES = ("low", "medium", "high", "critical")
_WEIGHTY = ("decision", "decided", "lesson", "important", "insight", "never", "always")
_FOLD = 100  # of a memory, what two of them are compared by beside their words


def offered() -> list[Tool]:
    """Return the tools, as their data file has them."""
    with open(
        os.path.join(os.path.dirname(__file__), "cortex_tools.json"), encoding="utf-8"
    ) as file:
        rows = json.load(file)
    return [
        Tool(row["name"], row["description"], row["schema"], *_CALLS[row["name"]]) for row in rows
    ]


def call(tool: Tool, agent_memory: AgentMemory, arguments: object, once: str | None = None) -> str:
    """Return the tool's answer. Raises ToolProblem if the arguments do not fit or the memory
    refuses."""
    return tools.call(tool, agent_memory, arguments, once)


def _create_category(agent_memory: AgentMemory, arguments: Arguments, once: str | None) -> str:
    name = arguments["name"].strip().lower().replace(" ", "_")
    keywords = _keywords(arguments["keywords"])
    categories = _categories(agent_memory)
    if not name or not keywords:
        raise InvalidEntry("a category needs a name and at least one keyword")
    conflicts = [
        keyword
        for existing in categories.values()
        for keyword in existing["keywords"]
        if keyword in keywords
    ]
    if name in categories or conflicts:
        raise InvalidEntry(
            f"category {name} exists already"
            if name in categories
            else f"keywords of another category: {', '.join(conflicts)}"
        )
    text = json.dumps(
        {"name": name, "description": arguments["description"], "keywords": keywords},
        ensure_ascii=False,
    )
    memory.remember(
        agent_memory,
        text,
        scope=default_scope(agent_memory),
        categories=(CATEGORY,),
        source="cortex",
        once=once,
    )
    return f"Category {inline(name)} made."


def _list_categories(agent_memory: AgentMemory, arguments: Arguments, _: str | None) -> str:
    categories = _categories(agent_memory).items()
    lines = [
        f"- {name}: {category['description']} ({', '.join(category['keywords'])})"
        for name, category in categories
    ]
    return join_lines([f"{inline(line)}\n" for line in lines], "no categories yet")


def _categories(agent_memory: AgentMemory) -> dict[str, dict[str, Any]]:
    categories: dict[str, dict[str, Any]] = {}
    declared = sorted(
        _facts(agent_memory, (CATEGORY,)), key=lambda entry: (-entry.authority, entry.seq)
    )
    for entry in declared:  # a name means what the highest authority first said
        try:
            row = json.loads(entry.body)
            categories.setdefault(
                str(row["name"]),
                {"description": row["description"], "keywords": _keywords(row["keywords"])},
            )
        except (ValueError, TypeError, KeyError):
            continue  # a fact that only bears the name
    return categories


def _keywords(arguments: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(keyword.strip().lower() for keyword in arguments if keyword.strip()))


def _add(agent_memory: AgentMemory, arguments: Arguments, once: str | None) -> str:
    content = arguments["content"]
    categories = _asked_categories(arguments) or _fitting_categories(agent_memory, content)
    weight = arguments.get("importance") or _weight(content)
    entry = memory.remember(
        agent_memory,
        content,
        scope=default_scope(agent_memory),
        categories=categories,
        importance=weight,
        source="cortex",
        once=once,
    )
    return f"Stored as {entry.id}: [{inline(', '.join(categories))}] importance={weight:.1f}"


def _fitting_categories(agent_memory: AgentMemory, content: str) -> tuple[str, ...]:
    """Return the categories whose keywords occur in the content."""
    text = content.lower()
    names = [
        name
        for name, category in _categories(agent_memory).items()
        if any(keyword in text for keyword in category["keywords"])
    ]
    return tuple(names) or (GENERAL,)


def _weight(content: str) -> float:
    text = content.lower()
    if "critical" in text:
        return 3.0
    return 2.0 if any(keyword in text for keyword in _WEIGHTY) else 1.0


def _list_facts(agent_memory: AgentMemory, arguments: Arguments, _: str | None) -> str:
    facts = _facts(agent_memory, _asked_categories(arguments))[: read_count(arguments, "limit", 10)]
    memory.used(agent_memory, [entry.id for entry in facts])
    return join_lines([_format_fact(entry) for entry in facts], "nothing is remembered here")


def _format_fact(entry: Entry) -> str:
    categories = ", ".join(entry.more.get("categories", ()))
    return (
        f"[{inline(categories)}]"
        f" importance={entry.more.get('importance', 1):.1f}\n{block.whole(entry).text}"
    )


def _stats(agent_memory: AgentMemory, arguments: Arguments, _: str | None) -> str:
    facts = _facts(agent_memory, keep_categories=True)
    by_category = Counter(name for entry in facts for name in entry.more.get("categories", ()))
    by_source = Counter(entry.more.get("source", "agent") for entry in facts)
    messages = agent_memory.read(namespace="mail", limit=0).visible
    lines = [
        f"memories: {len(facts)}",
        f"atoms: {len(entries_of_kind(agent_memory, ATOM))}",
        f"messages: {messages}",
    ]
    lines += [
        f"by category: {format_counts(by_category)}",
        f"by source: {format_counts(by_source)}",
    ]
    return "\n".join(map(inline, lines))


def _dedupe(agent_memory: AgentMemory, arguments: Arguments, _: str | None) -> str:
    groups = _groups_of_duplicates(
        _facts(agent_memory, _asked_categories(arguments)),
        arguments.get("similarity_threshold", 0.95),
    )
    if not groups:
        return "No duplicates."
    if arguments["action"] == "report":
        return join_lines(["".join(map(_format_fact, group)) + "\n" for group in groups], "")
    removed = 0
    for newest, *older in groups:
        if arguments["action"] == "merge":
            categories = dict.fromkeys(
                name for fact in (newest, *older) for name in fact.more.get("categories", ())
            )
            most = max(fact.more.get("importance", 1) for fact in (newest, *older))
            _replace(agent_memory, [newest, *older], newest.body, tuple(categories), most)
        else:
            for fact in older:
                memory.forget(agent_memory, fact.id, f"says the same as {newest.id}")
        removed += len(older)
    return (
        f"{removed} duplicates {'merged' if arguments['action'] == 'merge' else 'forgotten'} in"
        f" {len(groups)} groups."
    )


def _groups_of_duplicates(facts: Sequence[Entry], least: float) -> list[list[Entry]]:
    """Return groups of facts with the same content, the newest of each first."""
    groups: list[tuple[set[str], str, list[Entry]]] = []
    for entry in facts:
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


def _update(agent_memory: AgentMemory, arguments: Arguments, _: str | None) -> str:
    if arguments.get("importance") is None and not arguments.get("categories"):
        raise InvalidEntry("name importance or categories")
    old = _find_memory(agent_memory, arguments["memory_id"])
    new = _replace(
        agent_memory, [old], old.body, arguments.get("categories"), arguments.get("importance")
    )
    return (
        f"Updated: now {new.id}, [{inline(', '.join(new.more['categories']))}]"
        f" importance={new.more['importance']:.1f}"
    )


def _edit(agent_memory: AgentMemory, arguments: Arguments, _: str | None) -> str:
    if not arguments.get("append") and not arguments.get("replace"):
        raise InvalidEntry("name append or replace")
    old = _find_memory(agent_memory, arguments["memory_id"])
    new = _replace(
        agent_memory, [old], arguments.get("replace") or f"{old.body}\n\n{arguments['append']}"
    )
    return f"{'Replaced' if arguments.get('replace') else 'Appended'}: now {new.id}"


def _move(agent_memory: AgentMemory, arguments: Arguments, _: str | None) -> str:
    if not arguments["to_categories"]:
        raise InvalidEntry("name at least one category")
    old = _find_memory(agent_memory, arguments["memory_id"])
    new = _replace(agent_memory, [old], old.body, arguments["to_categories"])
    return f"Moved to [{inline(', '.join(arguments['to_categories']))}]: now {new.id}"


def _replace(
    agent_memory: AgentMemory,
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
        agent_memory,
        body,
        scope=scope,
        categories=tuple(categories or extra.get("categories", (GENERAL,))),
        importance=extra.get("importance", 1.0) if weight is None else weight,
        cites=(*old.derived_from, *extra.get("cites", ())),
        supersedes=tuple(fact.id for fact in olds),
        source=extra.get("source", "cortex"),
        to=old.addressees,
    )


def _find_memory(agent_memory: AgentMemory, name: str) -> Entry:
    """Return a memory by its id, or by words that only it contains."""
    if is_id(name):
        entry = agent_memory.get(name)
        if entry.kind != FACT:
            raise NotFound(f"{name} is not a memory", id=name)
        return entry
    facts = (
        [entry for entry in _facts(agent_memory) if name.lower() in entry.body.lower()]
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


def _predict(agent_memory: AgentMemory, arguments: Arguments, _: str | None) -> str:
    least = arguments.get("urgency_min", "low")
    if least not in URGENCIES:
        raise InvalidEntry(f"urgency_min is one of {', '.join(URGENCIES)}")
    insights = _facts(agent_memory, (INSIGHT,))
    if arguments.get("query"):
        near = {hit.id for hit in agent_memory.search(arguments["query"], kind=FACT, limit=200)}
        insights = [entry for entry in insights if entry.id in near]
    sources = set(arguments.get("sources") or ())
    insights = [entry for entry in insights if not sources or entry.author in sources]
    insights = [
        entry for entry in insights if URGENCIES.index(_urgency(entry)) >= URGENCIES.index(least)
    ]
    lines = [f"[{_urgency(entry).upper()}] {block.whole(entry).text}" for entry in insights]
    if arguments.get("include_queue") and agent_memory.id != OPERATOR:
        lines += [
            f"[UNREAD] {block.whole(message.entry).text}" for message in Mail(agent_memory).inbox()
        ]
    return join_lines(lines[: read_count(arguments, "limit", 5)], "no insight bears on that")


def _urgency(entry: Entry) -> str:
    return URGENCIES[min(3, max(0, int(entry.more.get("importance", 1) * 2) - 2))]


def _facts(
    agent_memory: AgentMemory, categories: Sequence[str] = (), *, keep_categories: bool = False
) -> list[Entry]:
    """Return the memories of these categories, or of all. Those that only declare a category must
    be asked for."""
    facts = []
    for entry in entries_of_kind(agent_memory, FACT):
        labels = entry.more.get("categories", ())
        if (
            any(name in categories for name in labels)
            if categories
            else (keep_categories or CATEGORY not in labels)
        ):
            facts.append(entry)
    return facts


def _asked_categories(arguments: Arguments) -> tuple[str, ...]:
    return tuple(
        arguments.get("categories")
        or ([arguments["category"]] if arguments.get("category") else ())
    )


_CALLS: Mapping[str, tuple[Callable[[AgentMemory, Arguments, str | None], str], bool]] = {
    "cortex_create_category": (_create_category, True),
    "cortex_list_categories": (_list_categories, False),
    "cortex_add": (_add, True),
    "cortex_stm": (_list_facts, False),
    "cortex_stats": (_stats, False),
    "cortex_dedupe": (_dedupe, True),
    "cortex_update": (_update, True),
    "cortex_edit": (_edit, True),
    "cortex_move": (_move, True),
    "cortex_predict": (_predict, False),
    "atom_create": (cortex_atoms.create_atom, True),
    "atom_search": (cortex_atoms.search_atoms, False),
    "atom_find_causes": (cortex_atoms.find_causes, False),
    "atom_link": (cortex_atoms.link_atoms, True),
    "atom_stats": (cortex_atoms.atom_stats, False),
}
