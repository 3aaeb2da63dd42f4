"""Two who decide on one thing, each otherwise: which of the answers is acted on, and are equals
told to be in dispute.

Figures, pure functions of the ledger: `metrics` adds them to its own. Counted are actions of agents
that were shown an answer, whichever, after both were written, or that of higher authority before:
whoever was not could not know better.
"""

from __future__ import annotations

from statistics import fmean

from scenarios.data.ledger import Event, Run


def figures(run: Run) -> dict[str, float]:
    """What was acted on where two answers contradict each other; nothing where none do."""
    answers = run.of("answer")
    if not answers:
        return {}
    higher, told, newest = list[bool](), list[bool](), list[bool]()
    for action in run.of("action"):
        given = [
            each
            for each in answers
            if each["fact"] == action["fact"] and each["t"] <= action["t"]
        ]
        if len({each["version"] for each in given}) < 2:
            continue
        best, seen = (
            _best(given),
            _shown(
                run, action, {str(each["version"]) for each in given}, given[-1]["t"]
            ),
        )
        if len(best) == 1 and (seen or _shown(run, action, best, 0)):
            higher.append(action["used"] in best)
        elif len(best) > 1 and seen:
            told.append(any(best & set(prompt.get("disputed", ())) for prompt in seen))
            newest.append(action["used"] == given[-1]["version"])
    found = {"answers.unequal": float(len(higher)), "answers.equal": float(len(told))}
    shares = {"answers.higher": higher, "answers.told": told, "answers.newest": newest}
    return found | {name: fmean(cases) for name, cases in shares.items() if cases}


def _best(given: list[Event]) -> set[str]:
    """The answers that nobody of higher authority contradicts."""
    top = max(each["authority"] for each in given)
    return {str(each["version"]) for each in given if each["authority"] == top}


def _shown(run: Run, action: Event, versions: set[str], since: int) -> list[Event]:
    """The prompts in that time, before the action, which showed its agent one of these."""
    return [
        prompt
        for prompt in run.of("prompt")
        if prompt["agent"] == action["agent"]
        and since <= prompt["t"] <= action["t"]
        and any(versions & set(told) for told in prompt["shows"].values())
    ]
