"""What each figure of `metrics` means, in a line. A name that ends in `.` stands for several."""

from __future__ import annotations

from collections.abc import Mapping

COUNTED = {"_unique": ", each token once", "_discounted": ", with a cache's discount"}
MEANINGS: Mapping[str, str] = {
    "tokens": "all tokens, billed",
    "usd": "dollars, at the list price in the ledger, with a cache that has to be written to",
    "usd_automatic": "the same, with a cache that fills by itself for nothing",
    "usd_saving": "1 - $ ÷ $ of the isolated arm, by seeds",
    "turns": "calls of a model",
    "seconds": "virtual seconds from the beginning to the end",
    "co_memory": "C ÷ W, billed: what the memory costs, beside the work",
    "co_plan": "P ÷ W, billed: what agents take that only coordinate",
    "co_task": "(C + P) ÷ W, billed",
    "co_total": "(C + P) ÷ T, billed",
    "co_ref": (
        "(C + P) ÷ W of the isolated arm as for net_saving, billed: it does not shrink"
        " when memory saves work"
    ),
    "tokens.": "tokens of each label, billed",
    "task_success": "share of the tasks that were done right, as the environment judged",
    "success": "1 where all tasks were done right",
    "tokens_per_success": "tokens ÷ tasks done right",
    "usd_per_success": "dollars ÷ tasks done right",
    "net_saving": (
        "1 - T ÷ T of the isolated arm, by seeds; where memory alone differs, its runs in"
        " the first cell"
    ),
    "saving_vs_broadcast": "1 - T ÷ T of the broadcast arm",
    "saving_vs_best": (
        "1 - T ÷ T of the best rival: the one that takes least, of those that do as many"
        " tasks right"
    ),
    "usd_vs_best": "the same in dollars, beside the rival that costs least",
    "success_vs_isolated": "task_success less that of the isolated arm, by seeds",
    "success_vs_best": "task_success less that of the rival that does most tasks right, by seeds",
    "memory_participation": "share of agents with an entry rendered or read, and one written",
    "discoveries": "facts that agents found out by themselves",
    "redundancy": (
        "share of these that stood in a live entry, readable by the agent, before it began"
    ),
    "concurrent": "share of these that another was finding out at that time",
    "duplicate_work": "findings beyond the first of each value, ÷ all findings",
    "redundant_token_share": "tokens of the redundant ones' observations ÷ W",
    "seen_before_work": (
        "of the needed results of other tasks, the share that the agent was shown before it worked"
    ),
    "context_reduction": "1 - tokens of views and searches ÷ tokens of live entries, all spawns",
    "view_reduction": "the same, for the view alone",
    "needed_recall": (
        "of the needed facts that were in the memory at a spawn, the share that the view"
        " or a search gave"
    ),
    "view_recall": "the same, for the view alone",
    "view_precision": "of the facts in views, the share that was needed",
    "stale_action_rate": "of the actions, the share that used a value of before",
    "stale_given": (
        "of the actions, the share that used a value of before which a search or a shared"
        " result had given"
    ),
    "stale_after_delivery": (
        "of the actions of agents that had been told, the share that used a value of before"
    ),
    "exposure": (
        "seconds from a change until an agent that uses the fact was first shown the new"
        " value, on average"
    ),
    "wake_latency": (
        "seconds from the write to the prompt that holds it, for agents that had a"
        " session, on average"
    ),
    "wake_latency_max": "the longest of these",
    "wake_turns": (
        "prompts of that agent after the write, up to and with the one that holds it, on average"
    ),
    "wake_delivery": (
        "of the agents that an entry was for and that had a session later, the share that"
        " was shown it"
    ),
    "wake_duplicates": "entries that were told twice in one conversation",
    "wake_precision": "of those woken, the share whose task needs what they were told",
    "fidelity": "of the facts that were acted on, the share that was exactly right",
    "fidelity.": "the same at each place of a chain",
    "corruption": "of the facts that were acted on, the share that was wrong rather than missing",
    "blockers": "blockers that were reported",
    "blockers_resolved": "of these, the share that somebody replaced",
    "blocker_mttr": "seconds until then, on average",
    "lost_results": "results of runs that no entry holds",
    "answers.unequal": (
        "actions on what two had decided otherwise, one with more authority, after either was shown"
    ),
    "answers.higher": "of these, the share that used the answer of higher authority",
    "answers.equal": (
        "actions on what two of equal authority had decided otherwise, after either was shown"
    ),
    "answers.told": (
        "of these, the share before which the agent was told that the answers are in dispute"
    ),
    "answers.newest": "of these, the share that used the newer answer",
    "relay_loss": "of the facts that a manager passed on, the share that was lost or changed",
    "growth": "tokens by which all live entries grow in a day (Theil–Sen)",
    "compression": "tokens of all live entries after a night ÷ before it, on average",
    "fact_retention": "queries that were answered after consolidation ÷ before",
    "asr_stored": "of the poisoned entries, the share that was stored",
    "asr_view": (
        "of the poisoned entries, the share that stood in a prompt outside of its quotation"
    ),
    "asr_act": "of the poisoned entries, the share that was acted on",
    "asr_act.": "the same for each way of poisoning",
    "false_positives": "of the honest entries, the share that was kept out",
    "lost_writes": "acknowledged writes that were missing after a crash",
    "repeated_share": "tokens that were spent again after crashes ÷ tokens before them",
    "probe.": "what the scenario measures by itself",
}


def meaning(name: str) -> str:
    """Return the meaning of a figure; KeyError where it has none."""
    for suffix, how in COUNTED.items():
        if name.endswith(suffix):
            return meaning(name.removesuffix(suffix)).removesuffix(", billed") + how
    return MEANINGS[name] if name in MEANINGS else MEANINGS[f"{name.partition('.')[0]}."]
