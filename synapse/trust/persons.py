"""Acts that an agent may not do: whoever is about to do one asks here first.

A process acts as an agent where its environment says so; the environment of a run does.
"""

from __future__ import annotations

import os

from synapse.errors import Forbidden


def persons_alone(action: str) -> None:
    """Refuse a person's act to a process that acts as an agent."""
    for name in ("SYNAPSE_RUN", "SYNAPSE_AGENT"):
        if value := os.environ.get(name):
            raise Forbidden(
                f"{name} is {value!a:.80}: an agent may not {action}, a person may"
                f" (in a shell of your own, or with `env -u {name}`)",
                agent=os.environ.get("SYNAPSE_AGENT"),
                action=action,
            )


def operators_alone(action: str) -> None:
    """Refuse what acts on the whole workspace, or shows all of it, to a run that acts as its agent
    alone.
    """
    run, own = os.environ.get("SYNAPSE_RUN"), os.environ.get("SYNAPSE_AGENT")
    if run:
        raise Forbidden(
            f"run {run} acts as {own} alone; to {action} is the operator's",
            agent=own,
            action=action,
        )
