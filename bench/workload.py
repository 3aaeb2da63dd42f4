"""What the bench writes and asks: twenty agents, forty namespaces, thirty days of entries of about
400 bytes.

Only the standard library, and always the same for the same size and end: the stores that are
measured beside ours run in interpreters of their own and take their entries from here.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

DAY = 86_400_000_000
DAYS = 30
BODY = 380
SUBTREES = {
    "projects": ("alpha/backend", "alpha/frontend", "beta/backend", "beta/qa", "gamma/docs"),
    "decisions": ("architecture", "interfaces", "security", "process", "tooling"),
    "blockers": ("alpha", "beta", "gamma", "infra", "release"),
    "status": ("frontend", "backend", "qa", "devops", "design"),
    "api": ("endpoints", "schemas", "endpoints/v2", "auth", "errors"),
    "infra": ("deployments", "ci", "dns/records", "secrets", "monitoring"),
    "design": ("tokens", "components", "copy/landing", "icons", "layout"),
    "team": ("alpha", "beta", "gamma", "retro/weekly", "onboarding"),
}
NAMESPACES = tuple(f"{top}/{below}" for top, parts in SUBTREES.items() for below in parts)
TTLS = {
    "projects": "30d",
    "decisions": "90d",
    "blockers": "7d",
    "status": "7d",
    "api": "30d",
    "infra": "14d",
    "design": "30d",
    "team": "14d",
}
GLOBS = (
    "projects/alpha/*",
    "decisions/*",
    "blockers/*",
    "status/backend",
    "api/*",
    "infra/ci",
    "design/tokens",
    "team/retro/*",
)
TEAMS = ("alpha", "beta", "gamma")
PLANTED = {"zephyrine": 0.005, "quokka": 0.02, "marmalade": 0.1, "heliotrope": 0.5}
WORDS = (
    "the of and to in for on with is from by that this it as be are was at not will"
    " all an can we or when after endpoint schema migration deploy service request"
    " response token client server database index cache queue worker thread latency"
    " timeout retry error handler middleware router config variable secret rotate key "
    "certificate domain branch merge commit review release version breaking change"
    " deprecated rewrite module package dependency upgrade lock build pipeline artifact"
    " container image registry cluster node volume mount path file directory permission"
    " owner group role policy audit metric trace alert dashboard threshold quota "
    "limit rate burst window session agent prompt context memory entry namespace"
    " priority subscribe supersede archive expire conflict authority blocked waiting"
    " pending verified tested flaky failing coverage scenario page layout button icon"
    " color font spacing headline footer menu search filter sort cursor offset batch "
    "stream event webhook payload signature encrypt hash account profile login scope"
    " grant refresh invoice plan customer ticket escalate handoff summary report weekly"
    " deadline estimate milestone roadmap design proposal decision rationale"
    " alternative rejected accepted question answer assumption risk rollback patch"
    " incident cause regression baseline benchmark leak disk network socket buffer"
    " segment journal projection shard replica"
).split()
LEADS = tuple(f"lead-{name}" for name in (*TEAMS, "core"))
ENGINEERS = tuple(f"eng-{number:02d}" for number in range(12))
SPECIALISTS = tuple(f"spec-{number}" for number in range(3))
READER = ENGINEERS[0]
WRITERS = ("cto", *LEADS, *ENGINEERS[1:], *SPECIALISTS)
_WEIGHTS = tuple(accumulate(1.0 / (place + 2) ** 0.8 for place in range(len(WORDS))))


class Person(NamedTuple):
    """One agent of the team."""

    id: str
    role: str
    authority: int
    teams: tuple[str, ...]
    read: tuple[str, ...]


class Item(NamedTuple):
    """One entry of the workload; `at` is the microsecond at which it came."""

    id: str
    author: str
    to: str
    at: int
    namespace: str
    priority: str
    ttl: str
    tags: tuple[str, ...]
    replaces: str | None
    body: str


def people() -> list[Person]:
    """The team. The first engineer only reads: it is the one whom the bench measures."""
    dice = random.Random(5)
    found = [Person("cto", "cto", 100, TEAMS, ("*",))]
    found += [Person(id, "project-lead", 80, (id[5:],), _globs(dice)) for id in LEADS]
    for place, id in enumerate(ENGINEERS):
        found.append(
            Person(id, "engineer", 60, (TEAMS[place % 3],), GLOBS if id == READER else _globs(dice))
        )
    found += [
        Person(id, "specialist", 40, (TEAMS[place],), _globs(dice))
        for place, id in enumerate(SPECIALISTS)
    ]
    return found


def items(count: int, end: int, seed: int = 7) -> Iterator[Item]:
    """So many entries, oldest first, evenly spread over the thirty days before the end."""
    dice, pool = random.Random(seed), bodies()
    last: dict[str, str] = {}
    day, number = "", 0
    for place in range(count):
        at = end - DAYS * DAY * (count - place - 1) // count
        today = time.strftime("%Y-%m-%d", time.gmtime(at // 1_000_000))
        day, number = (day, number + 1) if today == day else (today, 1)
        item = _item(dice, f"syn-{day}-{number:03d}", at, pool, last)
        last[item.namespace] = item.id
        yield item


def _item(dice: random.Random, id: str, at: int, pool: list[str], last: dict[str, str]) -> Item:
    popular = min(int(dice.expovariate(1 / 12)), len(NAMESPACES) - 1)
    namespace = NAMESPACES[popular] if dice.random() < 0.5 else dice.choice(NAMESPACES)
    return Item(
        id,
        dice.choice(WRITERS),
        _addressee(dice),
        at,
        namespace,
        _priority(dice.random()),
        TTLS[namespace.split("/", 1)[0]],
        tuple(dice.choices(WORDS, cum_weights=_WEIGHTS, k=dice.randint(1, 4))),
        last.get(namespace) if dice.random() < 0.1 else None,
        planted(dice, dice.choice(pool)),
    )


def _priority(chance: float) -> str:
    return "critical" if chance < 0.02 else "important" if chance < 0.20 else "info"


def _addressee(dice: random.Random) -> str:
    chance = dice.random()
    if chance < 0.8:
        return "all"
    return f"team:{dice.choice(TEAMS)}" if chance < 0.9 else f"agent:{dice.choice(WRITERS)}"


def bodies(count: int = 4_096) -> list[str]:
    dice = random.Random(99)
    return [_body(dice) for _ in range(count)]


def _body(dice: random.Random) -> str:
    text = ""
    while len(text) < BODY:
        words = dice.choices(WORDS, cum_weights=_WEIGHTS, k=dice.randint(6, 14))
        text += (
            " ".join(words).capitalize() + _detail(dice) + (".\n" if dice.random() < 0.3 else ". ")
        )
    return text[:BODY].rstrip()


def _detail(dice: random.Random) -> str:
    chance, word = dice.random(), dice.choice(WORDS)
    if chance < 0.10:
        return f" `/v{dice.randint(1, 3)}/{word}s/{{id}}`"
    if chance < 0.18:
        return f" https://app.example.com/{word}/{dice.randint(100, 99_999)}"
    return f" (see `src/{word}.py:{dice.randint(1, 900)}`)" if chance < 0.26 else ""


def planted(dice: random.Random, body: str) -> str:
    """The body with each planted word in it as often as its frequency says, once to three times."""
    for word, share in PLANTED.items():
        if dice.random() < share:
            body += f"\n{' '.join([word] * dice.randint(1, 3))} {dice.choice(WORDS)}."
    return body


def _globs(dice: random.Random) -> tuple[str, ...]:
    return tuple(dice.sample((*(f"{top}/*" for top in SUBTREES), *NAMESPACES), len(GLOBS)))
