"""Recall and references give out what their scope and `authority.visible` allow."""

import pytest

from synapse.knowledge import recall, references
from synapse.knowledge.capsule import short, short_id
from tests.gate.world import LIVE, MAIL, READERS, acts, refusal

PLACES = {
    "agent": lambda me, where: where == f"agents/{me.id}" if me.id != "operator" else where.startswith("agents/"),
    "group": lambda me, where: where in {f"groups/{team}" for team in teams(me)} or (
        me.id == "operator" and where.startswith("groups/")),
    "global": lambda me, where: where == "global",
    "all": lambda me, where: True,
}  # fmt: skip


def teams(me):
    agent = me.store.agents.get(me.id)
    return [name[5:] for name in agent.names if name.startswith("team:")] if agent else []


def walk_recall(me, world):
    states = {*LIVE, *MAIL}
    for scope, holds in PLACES.items():
        due = world.live(me.id, lambda entry, holds=holds: holds(me, entry.namespace), states)
        for known in world.known:
            found = recall.search(me, known.word, scope, top_k=1, max_capsule_bytes=256)
            yield (
                (scope, known),
                found,
                [entry.id for entry in found.shown] == [known.id] * (known.id in due),
                False,
            )
        found = recall.search(me, "common said", scope, top_k=1_000, max_capsule_bytes=1 << 16)
        yield (
            scope,
            found.text,
            {entry.id for entry in found.shown} <= due and bool(due) == bool(found.shown),
            False,
        )
    for team in ("red", "blue", "backend"):
        asked = refusal(lambda team=team: recall.search(me, "common", f"group:{team}").shown)
        yield (team, None, team in teams(me) or me.id == "operator" or "Forbidden" in asked, False)


def walk_references(me, world):
    """A short form of what is hidden answers as one of what is not there."""
    for known in world.hidden_from(me.id):
        entry = world.entry(known)
        for text in (short(entry), short_id(known.id)):
            for act in (references.resolve_reference, recall.version_by, recall.forget):
                if act is not recall.forget or me.id != "operator":
                    told = refusal(lambda act=act, text=text: act(me, text))
                    yield (
                        known,
                        told.replace(known.id, "").replace(short_id(known.id), ""),
                        "NotFound" in told,
                        False,
                    )


RECALL = {
    "search": walk_recall,
    "within": walk_recall,
    "version_by": walk_references,
    "forget": walk_references,
    "remember": acts(lambda me, id: recall.remember(me, "text", "agent", supersedes=id)),
    "cites": acts(lambda me, id: recall.remember(me, "text", "agent", cites=id)),
}


def recall_faults(world, me, name):
    for asked, told, right, reviewing in RECALL[name](me, world):
        leaked = world.leaks(me.id, repr(told), reviewing)
        if leaked or not right:
            yield name, asked, leaked or "wrong", told


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", RECALL)
def test_every_recall_passes_the_gate(world, name, reader):
    assert next(recall_faults(world, world.mem.as_agent(reader), name), None) is None


def test_the_walk_finds_a_recall_that_forgot_the_scope(world, monkeypatch):
    monkeypatch.setattr(recall, "within", lambda me, scope: None)
    assert next(recall_faults(world, world.mem.as_agent("eng-c"), "search"), None) is not None
