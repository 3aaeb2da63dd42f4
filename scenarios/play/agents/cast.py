"""The cast: what agents do where there is no model. Each is made of a policy and a seed, and sees
what a model would see: its prompt, the schemas of its tools, and their results. It knows no memory,
no scenario, no other agent.

A worker reads its task, finds what the task needs in what it was shown, else searches if it has a
tool for that, else finds out by itself, which is slow; then it works, and hands in what it knows.
It believes what it reads: its own findings first, then who has most authority, then what reached it
last, then the newest. What only somebody with less authority than its own says, and what is marked
as in dispute, it looks up before it uses it. How much of a text it takes in, how often it thinks of
its tools, how it words and what it writes down are chances that the policy sets.

What answers a call of a tool of the world it takes in as its own observation, whoever got it first.
"""

from __future__ import annotations

from orchestrator.engines.scripted import Move, Seen
from scenarios.play.agents.coordinator import Coordinator
from scenarios.play.agents.part import Policy
from scenarios.play.agents.worker import Worker
from scenarios.play.world.truth import drawn


class Player:
    """One policy at play. It remembers nothing: what it has done stands in the conversation."""

    def __init__(self, policy: Policy, seed: int) -> None:
        self.policy, self.seed = policy, seed

    def __call__(self, seen: Seen) -> Move:
        kind = Coordinator if self.policy.plays in ("cto", "lead") else Worker
        part = kind(self.policy, self.seed, seen)
        move = part.move()
        return move._replace(takes=move.takes + drawn(self.policy.thinks, part.random("thinks")))
