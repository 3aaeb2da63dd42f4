"""How a real model reads, searches, claims and notes: `probes` are played, counted, and left as a
file.

Every figure is a share with its number and Wilson's interval. Nothing is assumed where nothing was
seen: a model that writes no note has no figure for how it writes them. Of a coding client, which
takes no tools of ours, its last message tells `p_read` and `heeds`; a search in its shell leaves no
record, so the rest is not seen.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from scenarios.data import parameters
from scenarios.data.parameters import MEASURED, Estimate, Parameters
from scenarios.measure.statistics import proportion
from scenarios.play import probes
from scenarios.play.agents.live import Broken, Live, TooDear
from scenarios.play.harness import Counts
from scenarios.play.probes import Exchange, Trial
from scenarios.play.world.truth import said
from synapse.access import claims
from synapse.errors import SynapseError
from synapse.model import clock

RUNS = 20  # of each probe, where nobody says how many
OUT = "params.json"
ABOUT = {
    "p_read": "what a prompt or a search shows is used",
    "tool_use": "memory is searched before something is found out anew",
    "beside": "a note is written beside another call",
    "claims_otherwise": "a claim is worded otherwise than most are",
    "bare_queries": "a search leaves the number out",
    "chatter": "a turn writes a note without a finding",
    "wrong_notes": "a finding is noted with a wrong value",
    "heeds": "what only a lower authority says is looked up before use",
}
_NUMBER = re.compile(r"\d+")


class Tally:
    """What was counted so far: cases for each parameter, and kinds of words."""

    def __init__(self) -> None:
        self.cases: dict[str, list[bool]] = {name: [] for name in MEASURED}
        self.places: dict[str, list[bool]] = defaultdict(list)
        self.queries: Counter[str] = Counter()
        self.notes: Counter[str] = Counter()
        self.claims: list[str] = []
        self.trials = 0

    def add(self, trial: Trial, exchanges: Sequence[Exchange]) -> None:
        """Count what one trial shows."""
        self.trials += 1
        {
            probes.READ: self._reads,
            probes.SEEK: self._seeks,
            probes.FIND: self._finds,
            probes.HEED: self._heeds,
        }[trial.probe](trial, exchanges)

    def _reads(self, trial: Trial, exchanges: Sequence[Exchange]) -> None:
        (fact,) = trial.needs
        if trial.shell:
            self._took_in(trial.place, probes.answered(exchanges, fact) == fact.value)
            return
        looked_up = probes.looked_up(exchanges, "investigate") is not None
        self._took_in(trial.place, not looked_up and probes.used(exchanges, fact) == fact.value)

    def _took_in(self, place: str, hit: bool) -> None:
        self.cases["p_read"].append(hit)
        self.places[place].append(hit)

    def _seeks(self, trial: Trial, exchanges: Sequence[Exchange]) -> None:
        (fact,) = trial.needs
        search, dig = (
            probes.looked_up(exchanges, name) for name in ("memory_search", "investigate")
        )
        first = search is not None and (dig is None or search < dig)
        self.cases["tool_use"].append(first)
        for call in probes.calls_of(exchanges, "memory_search")[:1]:
            self._asks(probes.text_of(call, "query"), fact.subject)
        shown = next(
            (at for at, exchange in enumerate(exchanges) if fact.value in exchange.given), None
        )
        if first and shown is not None:
            after = probes.looked_up(exchanges[shown:], "investigate") is None
            self._took_in("search", after and probes.used(exchanges, fact) == fact.value)

    def _asks(self, query: str, subject: str) -> None:
        number = set(_NUMBER.findall(subject))
        same = said(subject) in " ".join(query.lower().split())
        bare = not number <= set(_NUMBER.findall(query))
        self.queries[
            "the task's own words" if same else "without the number" if bare else "other words"
        ] += 1
        self.cases["bare_queries"].append(bare)

    def _finds(self, trial: Trial, exchanges: Sequence[Exchange]) -> None:
        true = {fact.value for fact in trial.needs}
        values = set[str]()
        for exchange in exchanges:
            values |= true.intersection(probes.values_in(exchange.given))
            notes = [
                probes.text_of(call, "body") for call in exchange.calls if call.name == "append"
            ]
            kinds = [self._noted(note, trial, values) for note in notes]
            if exchange.calls:  # the last turn only says that it is done
                self.cases["chatter"].append("no finding" in kinds)
            if any(kind != "no finding" for kind in kinds):
                self.cases["beside"].append(any(call.name != "append" for call in exchange.calls))
        self.claims += [
            _form(probes.text_of(call, "work"), trial)
            for call in probes.calls_of(exchanges, "claim")
            if not call.arguments.get("release")
        ]

    def _noted(self, note: str, trial: Trial, known: set[str]) -> str:
        values = probes.values_in(note)
        wrong = [value for value in values if value not in known]
        if not values:
            kind = "no finding"
        elif wrong:
            kind = "wrong value"
        else:
            kind = (
                "word for word"
                if any(fact.text.lower() in note.lower() for fact in trial.needs)
                else "other words, right value"
            )
        if kind != "no finding":
            self.cases["wrong_notes"].append(bool(wrong))
        self.notes[kind] += 1
        return kind

    def _heeds(self, trial: Trial, exchanges: Sequence[Exchange]) -> None:
        (fact,) = trial.needs
        # the true value stands in the file alone: who gives it has looked
        if trial.shell:
            value = probes.answered(exchanges, fact)
            self.cases["heeds"] += [] if value is None else [value == fact.value]
            return
        dig, handed = (probes.looked_up(exchanges, name) for name in ("investigate", "submit"))
        if dig is not None or probes.used(exchanges, fact) is not None:
            self.cases["heeds"].append(dig is not None and (handed is None or dig < handed))

    # -- what it comes to --

    def estimates(self) -> dict[str, Estimate]:
        """Return every parameter, with no value where nothing was seen."""
        forms = Counter(self.claims)
        usual = max(forms, key=lambda form: forms[form], default="")
        cases = {**self.cases, "claims_otherwise": [form != usual for form in self.claims]}
        return {name: estimate(cases[name]) for name in MEASURED}

    def details(self) -> dict[str, Any]:
        """Return what else was counted: reading by place, and the wordings."""
        return {
            "p_read by place": {
                position: estimate(hits)._asdict() for position, hits in sorted(self.places.items())
            },
            "queries": dict(sorted(self.queries.items())),
            "notes": dict(sorted(self.notes.items())),
            "claims": dict(sorted(Counter(self.claims).items())),
        }


def estimate(cases: Sequence[bool]) -> Estimate:
    """Return the share of the cases that hold, with Wilson's interval."""
    if not cases:
        return Estimate(None, None, None, 0)
    share = proportion(sum(cases), len(cases))
    value, lo, hi = (round(end, parameters.DIGITS) for end in share)
    return Estimate(value, lo, hi, len(cases))


def _form(work: str, trial: Trial) -> str:
    """Return how a claim is worded, whatever it is about: the memory's own name of it, without the
    subject.
    """
    try:
        text = claims.named(work)
    except SynapseError:
        return work[:40]
    for fact in trial.needs:
        text = text.replace(fact.subject, "...").replace(said(fact.subject), "...")
    return _NUMBER.sub("N", text)


def measure(
    live: Live, runs: int, tell: Callable[[str], object] = lambda _: None
) -> tuple[Parameters, str]:
    """Return what the trials come to, and why they ended early, if they did. Broken where the model
    could not be asked, or where the money was spent before anything was measured."""
    tally, count, stopped = Tally(), Counts(), ""
    planned = list(probes.trials(runs, shell=not live.takes_tools))
    for number, trial in enumerate(planned, 1):
        exchanges = probes.play(trial, live, count)
        if isinstance(live.broken, TooDear):
            stopped = f"stopped after {tally.trials} of {len(planned)} trials: {live.broken}"
            break
        if live.broken is not None:
            raise Broken(str(live.broken)) from live.broken
        tally.add(trial, exchanges)
        tell(f"{number} of {len(planned)}: {trial.probe}")
    if not tally.trials:
        raise Broken(stopped)
    source = {
        "level": "L2",
        "engine": live.offer.engine,
        "model": live.named,
        "date": clock.iso(clock.now())[:10],
        "trials": tally.trials,
        "usd": round(live.spent, 4),
    }
    if live.unpriced:
        source["unpriced"] = live.unpriced
    if stopped:
        source["stopped"] = stopped
    return Parameters(source, tally.estimates(), tally.details()), stopped


def table(measured: Parameters) -> Iterator[str]:
    """Yield the figures for people, in lines of at most 80 columns."""
    source = measured.source
    yield (
        f"L2, measured: {source['engine']} {source['model']}, {source['date']},"
        f" {source['trials']} trials,"
    )
    unpriced = (
        f", {source['unpriced']} sessions without a known cost" if "unpriced" in source else ""
    )
    yield f"${source['usd']:.2f}{unpriced}. Shares with Wilson's 95 % interval."
    yield ""
    for name, one in measured.estimates.items():
        value = "not seen" if one.value is None else f"{one.value:.2f} [{one.lo:.2f}, {one.hi:.2f}]"
        yield f"{name:<17}{value:<20}{f'n {one.n}':>6}"
        yield f"  {ABOUT[name]}"
    yield ""
    for position, one in measured.details["p_read by place"].items():
        yield (
            f"read, {position + ':':<8} {one['value']:.2f} [{one['lo']:.2f},"
            f" {one['hi']:.2f}], n {one['n']}"
        )
    for kind in ("queries", "notes", "claims"):
        for text, number in measured.details[kind].items():
            yield f"{kind}: {number} × {text}"[:80]


# -- the shell -------------------------------------------------------------------------


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs",
        type=int,
        default=RUNS,
        metavar="N",
        help="trials of each probe; default: %(default)s",
    )
    parser.add_argument(
        "--out", default=OUT, metavar="FILE", help="for `run --params`; default: %(default)s"
    )
    parser.add_argument(
        "--command",
        metavar="COMMAND",
        help="of --live process: what plays the client; of a client: its program",
    )
    parser.add_argument("--quiet", action="store_true", help="do not tell how far it has got")


def run(args: argparse.Namespace, live: Live, out: Callable[[str], object] = print) -> None:
    """Measure, print what was found, and write it to the file."""
    if args.runs < 1:
        raise Broken(f"--runs {args.runs}: write 1 or more")
    tell = (
        (lambda _: None) if args.quiet else (lambda text: print(text, file=sys.stderr, flush=True))
    )
    measured, stopped = measure(live, args.runs, tell)
    os.makedirs(os.path.dirname(args.out) or ".", exist_ok=True)
    with open(args.out, "w", encoding="utf-8") as file:
        file.write(parameters.dump(measured))
    for line in table(measured):
        out(line)
    if stopped:
        out(stopped)
    out(f"\n{args.out}; play with it: brain-suite run ID --params {args.out}")
