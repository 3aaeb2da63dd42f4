"""What is measured of a run: every figure a pure function of its ledger. Nothing here plays, reads
files or judges.

`measured` gives the figures of one run; `compared` those that need another arm of the same seed. A
figure that a run says nothing about is not there. Shares are from 0 to 1; times in virtual seconds;
*billed* counts a token each time it was sent, *unique* once, *discounted* a tenth where it stood in
the prompt before.

Work (W): what agents that only work were sent and said, but for what the memory put there. Memory
(C): view, tool schemas, capsules, wakes, writeback and consolidation, of all agents; a turn that
news cut short is all C, for its work was thrown away. Planning (P): all turns of agents whose role
is to coordinate, but for C; what a manager reads and writes. T = W + C + P.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from statistics import fmean, median

from orchestrator.runs.files.ledger import COORDINATION, PLANNING
from orchestrator.spend.segments import COORDINATORS
from scenarios.data.ledger import Event, Run
from scenarios.measure import answers, dollars
from scenarios.measure.figures import Figures, share
from scenarios.measure.wakes import blockers, waking

PARTS = ("work", "memory", "planning", "tokens")
COUNTINGS = ("_unique", "_discounted")
AGAIN = 0.1  # what a token costs that a provider's cache holds, of its price


def measured(run: Run, own: Figures | None = None) -> Figures:
    """Return the figures of one run; `own` is what it is tallied to, where that is known."""
    own = own or tally(run)
    figures = _tokens(run, own) | _success(run, own) | _participation(run) | _redundancy(run, own)
    for measure in (
        _recall,
        _actions,
        waking,
        blockers,
        _relays,
        _poison,
        _crashes,
        answers.figures,
    ):
        figures |= measure(run)
    figures |= _nightly_figures(run)
    for probe in run.of("probe"):
        values = probe["value"] if isinstance(probe["value"], dict) else {"": probe["value"]}
        figures |= {
            f"probe.{probe['name']}{f'.{key}' if key else ''}": float(value)
            for key, value in values.items()
        }
    return figures


def compared(run: Run, isolated: Run | None, broadcast: Run | None = None) -> Figures:
    """Return the figures of a run beside others of the same seed and cell."""
    tallies = (other if other is None else tally(other) for other in (isolated, broadcast))
    return beside(tally(run), *tallies)


def beside(own: Figures, isolated: Figures | None, broadcast: Figures | None = None) -> Figures:
    """Return the figures of a run beside others of its seed and cell, from the figures of each."""
    figures: Figures = {}
    if isolated is not None and own["tokens"] and isolated["tokens"]:
        figures["net_saving"] = 1 - own["tokens"] / isolated["tokens"]
        if own.get("usd") and isolated.get("usd"):
            figures["usd_saving"] = 1 - own["usd"] / isolated["usd"]
        for suffix in ("", "_unique"):
            if isolated[f"work{suffix}"]:
                spent = own[f"memory{suffix}"] + own[f"planning{suffix}"]
                figures[f"co_ref{suffix}"] = spent / isolated[f"work{suffix}"]
    if broadcast is not None and own["tokens"] and broadcast["tokens"]:
        figures["saving_vs_broadcast"] = 1 - own["tokens"] / broadcast["tokens"]
    return figures


# -- Tokens ----------------------------------------------------------------------------


def tally(run: Run) -> Figures:
    """Return tokens by what they were for: `work`, `memory`, `planning`, `tokens`; billed,
    `_unique` and `_discounted`; and dollars, as `dollars.spent` has them.
    """
    sums: Counter[str] = Counter()
    coordinates = {event["run"]: event["role"] in COORDINATORS for event in run.of("spawn")}
    cut = {(event["run"], event["step"]) for event in run.of("completion") if event["interrupted"]}
    for event in run.of("prompt", "completion"):
        thrown = (event["run"], event["step"]) in cut
        plans = coordinates.get(event["run"], False)
        for label, tokens, *first in event["segments"]:
            purpose = (
                "memory"
                if thrown or label in COORDINATION
                else "planning"
                if plans or label in PLANNING
                else "work"
            )
            _add(sums, purpose, tokens, not first or bool(first[0]))
    for relay in run.of("relay"):
        _add(sums, "planning", relay["read"] + relay["wrote"], True)
    for run_event in run.of("consolidate"):
        _add(sums, "memory", run_event["tokens"], True)
    for suffix in ("", *COUNTINGS):
        for purpose in ("work", "memory", "planning"):
            sums[f"tokens{suffix}"] += sums[f"{purpose}{suffix}"]
    figures = {
        f"{purpose}{suffix}": float(sums[f"{purpose}{suffix}"])
        for purpose in PARTS
        for suffix in ("", *COUNTINGS)
    }
    return figures | dollars.spent(run)


def _add(sums: Counter[str], part: str, tokens: float, first: bool) -> None:
    sums[part] += tokens  # type: ignore[assignment]
    sums[f"{part}_unique"] += tokens if first else 0  # type: ignore[assignment]
    sums[f"{part}_discounted"] += tokens if first else tokens * AGAIN  # type: ignore[assignment]


def by_label(run: Run) -> dict[str, int]:
    """Tokens of each label, billed: what the composition of a prompt is drawn from."""
    sums: Counter[str] = Counter()
    for event in run.of("prompt", "completion"):
        for label, tokens, *_ in event["segments"]:
            sums[label] += tokens
    return dict(sums)


def _tokens(run: Run, own: Figures) -> Figures:
    figures = {name: own[name] for name in ("tokens", "tokens_unique", "tokens_discounted")}
    for suffix in ("", *COUNTINGS):
        work, memory, planning = (own[f"{purpose}{suffix}"] for purpose in PARTS[:3])
        if work:
            figures[f"co_memory{suffix}"] = memory / work
            figures[f"co_plan{suffix}"] = planning / work
            figures[f"co_task{suffix}"] = (memory + planning) / work
        figures[f"co_total{suffix}"] = (
            (memory + planning) / (work + memory + planning) if own["tokens"] else 0.0
        )
    figures |= {f"tokens.{label}": float(tokens) for label, tokens in sorted(by_label(run).items())}
    figures |= {name: own[name] for name in own if name.partition("_")[0] == "usd"}
    figures["turns"] = float(len(run.of("completion")))
    figures["seconds"] = run.events[-1]["elapsed"] / 1_000
    return figures


# -- Work ------------------------------------------------------------------------------


def _success(run: Run, own: Figures) -> Figures:
    verdicts = [event["ok"] for event in run.of("verdict")]
    end = run.events[-1]
    figures: Figures = {"lost_results": float(end["lost_results"])}
    if verdicts:
        figures |= {"task_success": fmean(verdicts), "success": float(all(verdicts))}
    if any(verdicts):
        figures["tokens_per_success"] = own["tokens"] / sum(verdicts)
        figures["usd_per_success"] = own["usd"] / sum(verdicts)
    return figures


def _participation(run: Run) -> Figures:
    """Return the share of agents with a run that were shown an entry, and that wrote one."""
    took_part = {event["agent"] for event in run.of("spawn")}
    readers = {
        event["agent"] for event in run.of("spawn", "prompt", "read", "search") if event["ids"]
    }
    wrote = {event["agent"] for event in run.of("write") if event["source"] != "scenario"}
    return share(
        "memory_participation", (agent in readers and agent in wrote for agent in took_part)
    )


def _redundancy(run: Run, own: Figures) -> Figures:
    discoveries = run.of("discovery")
    work = own["work"]
    first: set[tuple[str, str]] = set()
    repeated = []
    versions = _versions(run)
    for event in discoveries:
        key = event["fact"], versions(event["fact"], event["t"])
        repeated.append(key in first or event["known"])
        first.add(key)
    figures: Figures = {
        "discoveries": float(len(discoveries)),
        "duplicate_work": fmean(repeated) if repeated else 0.0,
    }
    figures["redundancy"] = fmean(event["known"] for event in discoveries) if discoveries else 0.0
    figures["concurrent"] = (
        fmean(event["concurrent"] for event in discoveries) if discoveries else 0.0
    )
    if work:
        figures["redundant_token_share"] = (
            sum(event["tokens"] for event in discoveries if event["known"]) / work
        )
    return figures


def _versions(run: Run) -> Callable[[str, int], str]:
    """Return a function that gives the true version of a fact at a time."""
    changes: dict[str, list[Event]] = {}
    for event in run.of("fact"):
        changes.setdefault(event["fact"], []).append(event)

    def at(fact: str, t: int) -> str:
        return str([event["version"] for event in changes[fact] if event["t"] <= t][-1])

    return at


# -- What was shown --------------------------------------------------------------------


def _recall(run: Run) -> Figures:
    """Needed facts that the memory held at a spawn: what the view had of them, and the view with
    all later searches.
    """
    by_run: dict[str, list[Event]] = {}
    for event in run.of("prompt"):
        by_run.setdefault(event["run"], []).append(event)
    version, spawns = _versions(run), run.of("spawn")
    counts, viewed, needed, included, before = [], [], 0, 0, []
    makers = {task["makes"] for task in run.begin["tasks"]}
    for spawn in spawns:
        first = _shown_facts(by_run.get(spawn["run"], [])[:1], ("view",))
        ever = _shown_facts(by_run.get(spawn["run"], []), ("view", "capsule", "wake"))
        early = _shown_facts(
            _before_work(run, spawn["run"], by_run.get(spawn["run"], [])),
            ("view", "capsule", "wake"),
        )
        for fact in spawn["available"]:
            current = version(fact, spawn["t"])
            viewed.append(current in first)
            counts.append(current in ever)
        before += [version(fact, spawn["t"]) in early for fact in spawn["needs"] if fact in makers]
        needs = {version(fact, spawn["t"]) for fact in spawn["needs"]}
        needed += len(needs & first)
        included += len(first)
    figures = (
        share("needed_recall", counts)
        | share("view_recall", viewed)
        | share("seen_before_work", before)
    )
    if included:
        figures["view_precision"] = needed / included
    live = sum(spawn["live_tokens"] for spawn in spawns)
    if live:
        views = sum(spawn["view_tokens"] for spawn in spawns)
        searched = sum(
            event["tokens"] for event in run.of("tool_result") if event["label"] == "capsule"
        )
        figures["view_reduction"] = 1 - views / live
        figures["context_reduction"] = 1 - (views + searched) / live
    return figures


def _shown_facts(prompts: Iterable[Event], labels: tuple[str, ...]) -> set[str]:
    return {
        version
        for event in prompts
        for label in labels
        for version in event["shows"].get(label, ())
    }


def _before_work(run: Run, id: str, prompts: list[Event]) -> list[Event]:
    """Return the prompts before the first call that does a step of the work, or finds something
    out.
    """
    starts = [
        event["t"]
        for event in run.of("tool_call")
        if event["run"] == id and event["tool"] in ("work", "investigate")
    ]
    return [event for event in prompts if not starts or event["t"] <= starts[0]]


# -- What was done with it -------------------------------------------------------------


def _actions(run: Run) -> Figures:
    actions = run.of("action")
    if not actions:
        return {}
    context, true = _first_shown(run), _versions(run)
    after = [
        event["stale"]
        for event in actions
        if context.get((event["agent"], true(event["fact"], event["t"])), 1 << 60) <= event["t"]
    ]
    figures = {
        "stale_action_rate": fmean(event["stale"] for event in actions),
        "fidelity": fmean(event["ok"] for event in actions),
        "corruption": fmean(event["asserted"] and not event["ok"] for event in actions),
    }
    figures |= share("stale_after_delivery", after)
    sources = _given(run)
    figures["stale_given"] = fmean(
        event["stale"] and sources.get((event["run"], event["used"]), 1 << 60) <= event["t"]
        for event in actions
    )
    hops = sorted({event["hop"] for event in actions if event["hop"] is not None})
    figures |= {
        f"fidelity.{hop}": fmean(event["ok"] for event in actions if event["hop"] == hop)
        for hop in hops
    }
    users = sorted({(event["agent"], event["fact"]) for event in actions})
    changes = [event for event in run.of("fact") if event["t"] > 0]
    waits = [
        context[agent, change["version"]] - change["t"]
        for change in changes
        for agent, fact in users
        if change["fact"] == fact and (agent, change["version"]) in context
    ]
    if waits:
        figures["exposure"] = max(fmean(waits), 0) / 1_000
    return figures


def _given(run: Run) -> dict[tuple[str, str], int]:
    """Return when each run was first given each version, by a search or by a result in place of a
    call.
    """
    sources: dict[tuple[str, str], int] = {}
    for event in run.of("prompt"):
        for version in event["shows"].get("capsule", ()):
            sources.setdefault((event["run"], version), event["t"])
    return sources


def _first_shown(run: Run) -> dict[tuple[str, str], int]:
    """Return when each agent was first shown each version, by the memory or by its own search."""
    times: dict[tuple[str, str], int] = {}
    for event in run.of("prompt"):
        for versions in event["shows"].values():
            for version in versions:
                times.setdefault((event["agent"], version), event["t"])
    return times


# -- Waking ----------------------------------------------------------------------------


# -- What else -------------------------------------------------------------------------


def _nightly_figures(run: Run) -> Figures:
    """Return how a memory grows, and how much of what was known before a night is found after
    it.
    """
    probes = run.of("probe")
    queries = [event["value"] for event in probes if event["name"] == "queries"]
    days = [
        (event["value"]["day"], event["value"]["tokens"])
        for event in probes
        if event["name"] == "day"
    ]
    figures: Figures = {}
    if sum(query["before"] for query in queries):
        figures["fact_retention"] = sum(query["after"] for query in queries) / sum(
            query["before"] for query in queries
        )
    slopes = [(b - a) / (t - s) for n, (s, a) in enumerate(days) for t, b in days[n + 1 :]]
    if slopes:
        figures["growth"] = median(slopes)
    events = run.of("consolidate")
    if events:
        figures["compression"] = fmean(
            event["tokens_after"] / max(event["tokens_before"], 1) for event in events
        )
    return figures


def _relays(run: Run) -> Figures:
    relays = run.of("relay")
    passed = sum(
        len(event["kept"]) + len(event["lost"]) + len(event["changed"]) for event in relays
    )
    damaged = sum(len(event["lost"]) + len(event["changed"]) for event in relays)
    return {"relay_loss": damaged / passed} if passed else {}


def _poison(run: Run) -> Figures:
    bad = [event for event in run.of("poison") if not event["legit"]]
    good = [event for event in run.of("poison") if event["legit"]]
    figures = share("asr_stored", (event["stored"] for event in bad))
    figures |= share("asr_view", (event["shown"] and not event["quoted"] for event in bad))
    figures |= share("asr_act", (event["acted"] for event in bad))
    for attack in sorted({event["way"] for event in bad}):
        figures |= share(
            f"asr_act.{attack}", (event["acted"] for event in bad if event["way"] == attack)
        )
    return figures | share("false_positives", (event["blocked"] for event in good))


def _crashes(run: Run) -> Figures:
    resumed = run.of("resume")
    if not resumed:
        return {}
    before = sum(event["tokens"] for event in resumed)
    repeated = sum(event["repeated_tokens"] for event in resumed)
    return {
        "lost_writes": float(sum(event["lost"] for event in resumed)),
        "repeated_share": repeated / before if before else 0.0,
    }
