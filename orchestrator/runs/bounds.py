"""The bounds of a spawn: whom an agent at work may give work to, and in which project.

Pure. What a run begins is no more than the run itself: else a lead would have a CTO read and write
for it. The operator's own runs have no bounds. The handler of the tool and the roster of a prompt
ask here.
"""

from __future__ import annotations

from synapse.model import namespace as ns
from synapse.model.agents import PLACES, Agent, general_authority


def beyond(giver: Agent, agent: Agent, flat: bool = False) -> str:
    """Return why this agent is beyond one that gives work; empty where it is not.

    It has no more authority, and no right that the giver has not. Whom the operator put into one
    team with the giver may have rights and skills of its own. What comes with any membership (its
    team's group, its own place) is no right that counts here.
    """
    mates = not set(giver.groups).isdisjoint(agent.groups)
    most, has = (_authority(one, flat, general=mates) for one in (giver, agent))
    if has > most:
        return f"it has authority {has}, and you have {most}"
    if giver.review_required and not agent.review_required:
        return "what you write is reviewed, and what it writes is not"
    if mates:
        return ""
    for verb, rights, globs in (
        ("read", giver.reads, (*(agent.read or ()), *_places(agent))),
        ("write", giver.writes, (*(agent.write or ()), *_places(agent))),
    ):
        for glob in globs:
            if not any(ns.covers(own, glob) for own in rights):
                return f"it may {verb} {glob}, and you may not"
    return ""


def foreign(giver: Agent, own: str, project: str) -> str:
    """Return why an agent at work on its `own` project may not give work in another; empty where
    it may: there, it may write itself all that whoever works there may.
    """
    places = [f"{folder}/{project}" for folder in PLACES]
    lacking = [folder for folder in places if not ns.matches_any(giver.writes, folder)]
    if project == own or not lacking:
        return ""
    return f"you may not write {lacking[0]}; name {own}, or leave the project out"


def may_read_result(reader: Agent, project: str) -> bool:
    """Return whether an agent may be given what came of a run in a project: it reads what such a
    run leaves there.
    """
    return ns.matches_any(reader.reads, f"status/{project}")


def _authority(agent: Agent, flat: bool, *, general: bool) -> int:
    """Return the most authority that an agent has anywhere; or, without its skills, in general."""
    skills = () if flat or general else agent.skills
    return max((general_authority(agent, flat), *(one.authority for one in skills)))


def _places(agent: Agent) -> list[str]:
    return [f"{folder}/{name}/*" for name in agent.memberships for folder in PLACES]
