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
    """Return the figures of contradictory answers; empty where no two answers contradict each
    other.
    """
    answers = run.of("answer")
    if not answers:
        return {}
    higher, results, newest = list[bool](), list[bool](), list[bool]()
    for action in run.of("action"):
        before = [
            answer
            for answer in answers
            if answer["fact"] == action["fact"] and answer["t"] <= action["t"]
        ]
        if len({answer["version"] for answer in before}) < 2:
            continue
        best = _best(before)
        versions = _shown(
            run, action, {str(answer["version"]) for answer in before}, before[-1]["t"]
        )
        if len(best) == 1 and (versions or _shown(run, action, best, 0)):
            higher.append(action["used"] in best)
        elif len(best) > 1 and versions:
            results.append(any(best & set(prompt.get("disputed", ())) for prompt in versions))
            newest.append(action["used"] == before[-1]["version"])
    result = {"answers.unequal": float(len(higher)), "answers.equal": float(len(results))}
    shares = {"answers.higher": higher, "answers.told": results, "answers.newest": newest}
    return result | {name: fmean(cases) for name, cases in shares.items() if cases}


def _best(given: list[Event]) -> set[str]:
    """Return the answers that nobody of higher authority contradicts."""
    top = max(answer["authority"] for answer in given)
    return {str(answer["version"]) for answer in given if answer["authority"] == top}


def _shown(run: Run, action: Event, versions: set[str], since: int) -> list[Event]:
    """Return the prompts in that time, before the action, which showed its agent one of these."""
    return [
        prompt
        for prompt in run.of("prompt")
        if prompt["agent"] == action["agent"]
        and since <= prompt["t"] <= action["t"]
        and any(versions & set(ids) for ids in prompt["shows"].values())
    ]
