"""`synapse reputation`: where agents stand, and every step that moved them, with the records behind
it.
"""

from __future__ import annotations

from collections.abc import Iterable

from synapse.cli.call import Call
from synapse.cli.options import Options
from synapse.model import clock
from synapse.system.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from synapse.consolidate import Account
    from synapse.consolidate.reputation import Step

_HEADS = ("agent", "declared", "stands at", "reviews", "next")
_SAYS = {
    "on": "reviewed by a night every 30 days",
    "report": "only told of: `reputation: on` in synapse.yaml makes it count",
    "off": "off in synapse.yaml: it moves nothing; this is what it would",
}


def reputation_options(parser: Options) -> None:
    parser.add_argument(
        "agent", nargs="?", metavar="AGENT", help="only this one, step by step"
    )


def reputation(call: Call) -> None:
    from synapse.consolidate import accounts

    found, how = (
        accounts(call.memory, call.args.agent),
        call.memory.store.settings.reputation,
    )
    told = {"reputation": how, "agents": [account_json(each) for each in found]}
    call.show(
        lambda: told,
        lambda: _one(found[0], how) if call.args.agent else _all(found, how),
    )


def account_json(account: Account) -> dict[str, Any]:
    """An agent's standing for programs: times in words, steps with their records."""
    reviews = [
        {
            "act": each.seq,
            "since": clock.iso(each.since),
            "until": clock.iso(each.until),
            "move": each.move,
            "stands": each.stands,
            "steps": [_step_json(step) for step in each.steps],
        }
        for each in account.reviews
    ]
    more = {
        "since": clock.iso(account.since),
        "reviews": reviews,
        "steps": [_step_json(step) for step in account.steps],
    }
    return account._asdict() | more


def _step_json(step: Step) -> dict[str, Any]:
    deed = step.deed
    return deed._asdict() | {
        "at": clock.iso(deed.at),
        "move": step.move,
        "why": step.why,
    }


def _all(found: Iterable[Account], how: str) -> str:
    from synapse.cli.table import table

    rows = [
        (
            each.agent,
            str(each.declared),
            str(each.standing),
            str(len(each.reviews)),
            f"{each.move:+}",
        )
        for each in found
    ]
    return (
        "\n".join([_SAYS[how], table(_HEADS, rows)])
        if rows
        else "no agent is registered"
    )


def _one(account: Account, how: str) -> str:
    lines = [
        f"{account.agent}: declared {account.declared}, stands at {account.standing}; {_SAYS[how]}"
    ]
    for each in account.reviews:
        turned = "" if each.stands else ", taken back"
        lines.append(
            f"review {each.seq}, {clock.day(each.since)} to {clock.day(each.until)}:"
            f" {each.move:+}{turned}"
        )
        lines += map(_line, each.steps)
    lines.append(f"since {clock.day(account.since)}: {account.move:+}")
    lines += map(_line, account.steps)
    return "\n".join(lines if account.steps else [*lines, "  nothing yet"])


def _line(step: Step) -> str:
    deed = step.deed
    seen = f"; shown to {', '.join(deed.seen_by)}" if deed.seen_by else ""
    records = ", ".join(map(str, deed.records))
    return (
        f"  {step.move:>+3}  {clock.day(deed.at)}  {deed.entry}  {step.why} (records"
        f" {records}{seen})"
    )
