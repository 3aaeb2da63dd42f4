"""The shell of the Brain Suite: `brain-suite list`, `brain-suite run ID`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scenarios import ledger
from scenarios.arms import ARMS
from scenarios.batch import Order, played
from scenarios.reading import BrokenScenario, find, library, load
from scenarios.schema import Scenario

GOOD, MISSED, BROKEN, SKIPPED = 0, 1, 2, 77


def main(argv: Sequence[str] | None = None) -> int:
    args = _arguments().parse_args(argv)
    try:
        code: int = args.act(args)
    except (BrokenScenario, ledger.BrokenLedger, OSError) as error:
        print(f"brain-suite: {error}", file=sys.stderr)
        return BROKEN
    except KeyboardInterrupt:
        return 130
    return code


def _list(args: argparse.Namespace) -> int:
    for id, text in library().items():
        scenario = load(text)
        print(f"{id:<28}{scenario.title}")
    return GOOD


def _run(args: argparse.Namespace) -> int:
    named = list(library()) if args.scenario == "all" else [args.scenario]
    cell = dict(_pair(text) for text in args.set)
    orders: list[Order] = []
    for name in named:
        scenario = load(find(name), cell)
        arms = args.arms.split(",") if args.arms else list(scenario.arms)
        orders += orders_of(scenario, name, arms, args.runs, args.seed, cell)
    os.makedirs(args.out, exist_ok=True)
    path = os.path.join(args.out, "ledger.jsonl.gz")
    lines = [line for made in played(orders, args.jobs) for line in made]
    ledger.write(path, lines)
    print(f"{len(orders)} runs, {len(lines)} lines, sha256 {ledger.digest(lines)[:16]}: {path}")
    return GOOD


def orders_of(
    scenario: Scenario, name: str, arms: Iterable[str], runs: int | None, seed: int | None, cell: Mapping[str, Any]
) -> list[Order]:
    """Every arm that can run, with the same seeds; for those that cannot, it is said why."""
    found = []
    for arm in arms:
        if arm not in ARMS:
            raise BrokenScenario(f"there is no arm {arm}; there are {', '.join(ARMS)}")
        if why := ARMS[arm].missing():
            print(f"{scenario.id}: {arm} is not available: {why}", file=sys.stderr)
            continue
        first = scenario.seed if seed is None else seed
        found += [Order(name, arm, first + n, tuple(cell.items())) for n in range(runs or scenario.runs)]
    return found


def _pair(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    if value in ("true", "false"):
        return name, value == "true"
    try:
        return name, float(value) if "." in value else int(value)
    except ValueError:
        return name, value


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="brain-suite", description="What coordination costs and saves, measured.")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    verb = verbs.add_parser("list", help="the scenarios there are")
    verb.set_defaults(act=_list)
    verb = verbs.add_parser("run", help="play a scenario and write its ledger")
    verb.add_argument("scenario", metavar="ID|FILE|all")
    verb.add_argument("--arms", metavar="A,B", help="these arms; else those of the scenario")
    verb.add_argument("--runs", type=int, metavar="N", help="so many seeds; else as many as the scenario says")
    verb.add_argument("--seed", type=int, metavar="N", help="the first seed")
    verb.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="another value of a parameter")
    verb.add_argument("--out", default="brain-suite", metavar="DIR", help="where to; default: %(default)s")
    verb.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes")
    verb.set_defaults(act=_run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
