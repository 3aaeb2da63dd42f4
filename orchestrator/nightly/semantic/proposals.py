"""The question that asks a model for merges and summaries, and the parsing of its answer. Pure but
for the templates' files; nothing here believes the answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from orchestrator.prompts.fence import quoted
from orchestrator.prompts.render import fenced
from orchestrator.prompts.templates import Templates
from synapse.consolidate.proposal import MOST, Proposal
from synapse.errors import SynapseError
from synapse.model.agents import CONSOLIDATOR
from synapse.model.entry import Entry
from synapse.view.fence import fence

# entries in one question, and how long they are together
TOGETHER, CHARACTERS = 20, 24_000
ANSWERED = 20  # proposals of one answer that are looked at


class Malformed(SynapseError):
    """An answer that is not in the form that was asked for."""


class Question(NamedTuple):
    """One call: its system text, and the entries fenced in."""

    system: str
    text: str


def batches(groups: Iterable[Sequence[Entry]]) -> list[list[Entry]]:
    """Divide groups of entries into portions that fit into one question, by the first of each."""
    result: list[list[Entry]] = []
    for group in groups:
        portion: list[Entry] = []
        for entry in group:
            if (
                len(portion) == TOGETHER
                or sum(len(item.body) for item in portion) + len(entry.body) > CHARACTERS
            ):
                result.append(portion)
                portion = []
            portion.append(entry)
        result.append(portion)
    return sorted(
        (portion for portion in result if len(portion) > 1), key=lambda portion: portion[0].seq
    )


def question(entries: Sequence[Entry], secret: bytes, templates: Templates) -> Question:
    """Return the question. Every entry stands quoted, line by line, between tags that nobody who
    writes an entry can know.
    """
    entry_texts = "".join(_entry_text(entry) for entry in entries)
    text = fenced(
        "candidates", fence(secret, CONSOLIDATOR, entry_texts), entry_texts, templates, "entries"
    )
    return Question(templates.render("consolidate", {"most": MOST}), text)


def answer(text: str) -> list[Proposal]:
    """Return the proposals of an answer, or raise Malformed. Others judge what each proposal
    says.
    """
    bare = text.strip()
    if bare.startswith("```"):
        bare = bare.partition("\n")[2].rstrip().removesuffix("```")
    try:
        value = json.loads(bare)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"the answer is no JSON: {error}") from error
    items = value.get("proposals") if isinstance(value, dict) else None
    if not isinstance(items, list) or len(items) > ANSWERED:
        raise Malformed(f'the answer is no {{"proposals": [...]}} with at most {ANSWERED} of them')
    return [_proposal(item) for item in items]


def _proposal(item: Any) -> Proposal:
    fields = item if isinstance(item, dict) else {}
    kind, entries, text = fields.get("kind"), fields.get("entries"), fields.get("text")
    ids = [id for id in entries if isinstance(id, str)] if isinstance(entries, list) else []
    if not (isinstance(kind, str) and isinstance(text, str) and ids and ids == entries):
        raise Malformed("a proposal of the answer lacks kind, entries or text")
    return Proposal(kind, tuple(ids), text)


def _entry_text(entry: Entry) -> str:
    return f"- {entry.id}\n" + "".join(f"  {line}\n" for line in quoted(entry.body).splitlines())
