"""The table of the verbs of the orchestrator's shell. Data; imports no verb.

Read by `main`, the completion scripts and the reference of the shell.
"""

from __future__ import annotations

from synapse.cli.frame.program import WHERE, Help, Program, Verb

GROUPS = {
    "clients": "Give a coding client the memory",
    "do": "Give work to agents",
    "see": "See what runs, and what ran",
    "end": "Step in",
    "keep": "Look after the workspace",
}


def _verb(name: str, group: str, code: str, summary: str, example: str) -> Verb:
    return Verb(name, group, code, summary, example, "orchestrator")


_TABLE = (
    _verb(
        "install",
        "clients",
        "clients.install",
        "give a coding client the memory",
        "orchestrator install claude-code",
    ),
    _verb(
        "uninstall",
        "clients",
        "clients.install",
        "take the memory out of a client again",
        "orchestrator uninstall claude-code",
    ),
    _verb(
        "sync",
        "clients",
        "clients.sync",
        "read clients' own files, write what the team decided into them",
        "orchestrator sync --dry-run",
    ),
    _verb(
        "doctor",
        "clients",
        "clients.doctor",
        "check whether clients have the memory",
        "orchestrator doctor",
    ),
    _verb(
        "run",
        "do",
        "work.run",
        "give a task to an agent, and wait for its result",
        (
            "orchestrator run --agent eng-frontend --project brain-suite \\\n   "
            ' --max-usd 0.5 "Fix the landing page"'
        ),
    ),
    _verb(
        "team",
        "do",
        "work.team",
        "give a brief to a team: plan, work, test, report",
        'orchestrator team --project shop --brief "A page that sells one book"',
    ),
    _verb(
        "demo",
        "do",
        "work.demo",
        "watch a team of three at work; needs no key",
        "orchestrator demo",
    ),
    _verb("init", "do", "work.init", "write an example workspace with a team", "orchestrator init"),
    _verb(
        "ps",
        "see",
        "inspect.runs",
        "list the runs that are going on, or all",
        "orchestrator ps --all --limit 20",
    ),
    _verb("tree", "see", "inspect.runs", "show who spawned whom", "orchestrator tree lead-1f0c"),
    _verb(
        "tail",
        "see",
        "inspect.tail",
        "show what a run did, step by step",
        "orchestrator tail eng-backend-9a31 --follow",
    ),
    _verb(
        "stats",
        "see",
        "inspect.stats",
        "sum up runs, tokens, cost, overhead, blockers",
        "orchestrator stats --by department --since 7d",
    ),
    _verb(
        "audit",
        "see",
        "inspect.audit",
        "show what recorded sessions cost, and what was done twice",
        "orchestrator audit --since 7d --html audit.html",
    ),
    _verb(
        "receipt",
        "see",
        "inspect.receipt",
        "show what went into a prompt, and why",
        "orchestrator receipt lead-1f0c",
    ),
    _verb(
        "replay",
        "see",
        "inspect.receipt",
        "print the prompt that a run began with",
        "orchestrator replay lead-1f0c > p.md",
    ),
    _verb(
        "wakes",
        "see",
        "inspect.wakes",
        "show how far critical entries got, and to whom",
        "orchestrator wakes --since 24h",
    ),
    _verb(
        "unread",
        "see",
        "inspect.unread",
        "list results that cost tokens and that nobody read",
        "orchestrator unread",
    ),
    _verb(
        "inbox",
        "see",
        "inspect.inbox",
        "list what waits for you, and what to type",
        "orchestrator inbox",
    ),
    _verb(
        "say",
        "end",
        "control.say",
        "speak to all agents at work, or to some of them",
        'orchestrator say "Stop: the staging database is being moved"',
    ),
    _verb(
        "answer",
        "end",
        "control.answer",
        "answer what a run or an agent asks; its tree goes on",
        'orchestrator answer lead-1f0c "It has disk now"',
    ),
    _verb(
        "stop",
        "end",
        "control.stop",
        "end runs, with all that they spawned",
        "orchestrator stop lead-1f0c",
    ),
    _verb(
        "resume",
        "end",
        "control.resume",
        "go on with runs that were left, or whose process died",
        "orchestrator resume lead-1f0c --tool shop:look",
    ),
    _verb(
        "up",
        "keep",
        "upkeep.daemon",
        "start the daemon: it resumes runs and tidies at night",
        "orchestrator up --detach",
    ),
    _verb("down", "keep", "upkeep.daemon", "end the daemon; its runs wait", "orchestrator down"),
    _verb(
        "status",
        "keep",
        "upkeep.daemon",
        "show whether the daemon is up, and its runs",
        "orchestrator status",
    ),
    _verb("open", "keep", "upkeep.open", "look at the workspace in a browser", "orchestrator open"),
    _verb(
        "propose",
        "keep",
        "upkeep.propose",
        "have an engine propose merges",
        "orchestrator propose --max-usd 0.2",
    ),
    _verb(
        "schedule",
        "keep",
        "upkeep.schedule",
        "show when the memory is tidied, and was",
        "orchestrator schedule --days 30",
    ),
    _verb(
        "completion",
        "keep",
        "upkeep.completion",
        "print a completion script",
        "orchestrator completion bash",
    ),
)
VERBS = {verb.name: verb for verb in _TABLE}
OLDER_NAMES = {"debts": "unread", "questions": "inbox"}


# What a person needs in the first week.
FIRST = "demo install doctor run team ps tail say stop open".split()

_FOOT = (
    "Everywhere, before or after the verb:",
    *WHERE,
    "  --json      print JSON, errors too",
    "  --debug     show the traceback of an error",
    "",
    "A run may be named by the beginning of its name. All of this is the operator's: a",
    "spawned run is refused. `orchestrator VERB --help` has an example each.",
    "",
)
overview = Help(
    "orchestrator", "Teams of agents on a shared memory.", GROUPS, VERBS, FIRST, _FOOT
).text

# A prompt shows what its agent may see; to others it is as closed as the entries in it.
PROGRAM = Program(
    "orchestrator", VERBS, frozenset(VERBS), overview, older=OLDER_NAMES, needs="jinja2"
)
