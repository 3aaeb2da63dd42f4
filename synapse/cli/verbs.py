"""The table of verbs: group, module, summary and example of each.

Data; imports no verb.

A verb's module is imported when the verb is called, so that reading an entry never pays for
`doctor`.
"""

from __future__ import annotations

from synapse.cli.frame.program import WHERE, Help, Program, Verb

GROUPS = {
    "write": "Write and read",
    "mail": "Mail",
    "know": "Know",
    "follow": "Follow",
    "connect": "Connect programs",
    "rule": "Decide about entries",
    "team": "Set up",
    "keep": "Look after the store",
}

_TABLE = (
    Verb(
        "write",
        "write",
        "write",
        "write an entry; the body is the argument or standard input",
        "synapse write --from eng-backend --namespace api/endpoints \\\n"
        '    --priority critical --tags api,v2 "BREAKING: use /v2/users"',
    ),
    Verb(
        "read",
        "write",
        "read",
        "show the newest entries, what is unread, or some by their ids",
        "synapse read --agent eng-frontend --since 24h \\\n    --priority critical,important",
    ),
    Verb(
        "search",
        "write",
        "read",
        "search entries, mail and knowledge, best first",
        "synapse search --agent eng-frontend --when 'last week' users endpoint",
    ),
    Verb(
        "view",
        "write",
        "read",
        "show the briefing of an agent, cut to a token budget",
        "synapse view eng-frontend --budget 2000",
    ),
    Verb(
        "remember",
        "know",
        "knowledge",
        "store a fact, with its sources",
        (
            "synapse remember --from nova --scope group --cites syn_0123456789ab \\\n   "
            ' "the sandbox resets at noon"'
        ),
    ),
    Verb(
        "atom",
        "know",
        "knowledge",
        "store an atom: who did what, with which outcome",
        'synapse atom --from nova "the cache" "was off" "pages took 2 s" "users left"',
    ),
    Verb(
        "link",
        "know",
        "knowledge",
        "link two atoms as cause and effect",
        "synapse link --from nova atom_0123456789ab atom_ba9876543210 --type enables",
    ),
    Verb(
        "forget",
        "know",
        "knowledge",
        "withdraw facts and atoms; they stay in the log",
        'synapse forget --from nova fact_0123456789ab --reason "it moved"',
    ),
    Verb(
        "why",
        "know",
        "knowledge",
        "trace an item back to the conversation or prompt it came from",
        "synapse why fact_0123456789ab",
    ),
    Verb(
        "send",
        "mail",
        "mail",
        "send a message, answer one, or edit your own",
        (
            'synapse send --from helios --to nova --subject "Fees" --priority action \\\n'
            '    "Which fee do we assume?"'
        ),
    ),
    Verb(
        "inbox",
        "mail",
        "mail",
        "show unread messages; --mark marks them as read",
        "synapse inbox --agent nova --mark",
    ),
    Verb(
        "ack",
        "mail",
        "mail",
        "acknowledge messages, or entries that were delivered",
        'synapse ack --from nova syn_0123456789ab --body "0.1 %, as before"',
    ),
    Verb(
        "threads",
        "mail",
        "mail",
        "list the threads, most active first",
        "synapse threads --agent nova --status all",
    ),
    Verb(
        "thread",
        "mail",
        "mail",
        "show a thread, or close, reopen, tag or rename it",
        "synapse thread thr_00010203-0405-4607-8809-0a0b0c0d0e0f --agent nova",
    ),
    Verb(
        "poll", "mail", "mail", "count the unread messages of an agent", "synapse poll --agent nova"
    ),
    Verb(
        "recent",
        "know",
        "knowledge",
        "show what was written lately, of every kind",
        "synapse recent --agent nova --since 2h --kind message,fact",
    ),
    Verb(
        "what-did",
        "know",
        "knowledge",
        "show what an agent wrote, decided and ran",
        "synapse what-did eng-backend --since yesterday",
    ),
    Verb(
        "timeline",
        "know",
        "knowledge",
        "show the plans, decisions, blockers and runs of a project",
        "synapse timeline brain-suite --since 7d",
    ),
    Verb(
        "unread",
        "follow",
        "follow",
        "count the entries that an agent was not shown",
        "synapse unread --agent eng-frontend",
    ),
    Verb(
        "watch",
        "follow",
        "follow",
        "print a line whenever something is written",
        "synapse watch --agent eng-frontend --critical --json",
    ),
    Verb("log", "follow", "follow", "show what happened, by day", "synapse log --since 7d"),
    Verb(
        "audit",
        "follow",
        "follow",
        "show who wrote, changed or was shown what",
        "synapse audit --agent eng-backend --since 24h --json",
    ),
    Verb(
        "mcp",
        "connect",
        "connect",
        "serve the memory to any MCP client, as one agent",
        "synapse mcp --agent eng-frontend",
    ),
    Verb(
        "webhooks",
        "connect",
        "webhooks",
        "list and test webhooks, send dead letters again, run the sender",
        "synapse webhooks test chat",
    ),
    Verb(
        "serve",
        "connect",
        "serve",
        "serve the workspace over HTTP, with pages to look at it",
        "synapse serve --port 8642",
    ),
    Verb(
        "dashboard",
        "connect",
        "serve",
        "print a link that logs a browser in at the running server",
        "synapse dashboard --agent eng-backend",
    ),
    Verb(
        "token",
        "connect",
        "serve",
        "make, list and revoke the tokens of those who ask over HTTP",
        "synapse token new eng-backend --expires 30d",
    ),
    Verb(
        "resolve",
        "rule",
        "decide",
        "mark blockers as resolved",
        'synapse resolve syn-2026-02-01-001 --note "it has a key now"',
    ),
    Verb(
        "approve",
        "rule",
        "decide",
        "approve staged entries; without an id, list them",
        "synapse approve --from pl-brain syn-2026-02-01-001",
    ),
    Verb(
        "reject",
        "rule",
        "decide",
        "reject staged entries",
        'synapse reject --from pl-brain syn-2026-02-01-001 --reason "not measured"',
    ),
    Verb(
        "vouch",
        "rule",
        "decide",
        "trust entries whose author is not proven",
        "synapse vouch --from pl-brain syn-2026-02-01-001",
    ),
    Verb(
        "archive",
        "rule",
        "decide",
        "archive entries; they stay readable",
        'synapse archive --from pl-brain syn-2026-02-01-001 --reason "done"',
    ),
    Verb(
        "restore",
        "rule",
        "decide",
        "bring archived entries back",
        "synapse restore --from pl-brain syn-2026-02-01-001",
    ),
    Verb(
        "taint",
        "rule",
        "contain",
        "hide a poisoned entry, and what was made of it, from all",
        'synapse taint syn-2026-02-01-001 --reason "came out of a forged ticket"',
    ),
    Verb(
        "untaint",
        "rule",
        "contain",
        "show tainted entries again",
        "synapse untaint syn-2026-02-01-001",
    ),
    Verb(
        "revoke",
        "rule",
        "contain",
        "taint all that an agent wrote since a time",
        "synapse revoke eng-backend --since 2d --plan",
    ),
    Verb("init", "team", "setup", "make a workspace", "synapse init ./shared-memory"),
    Verb(
        "register",
        "team",
        "setup",
        "register an agent, or replace its declaration",
        "synapse register --id eng-backend --role engineer --department backend \\\n"
        '    --read "api/*,blockers/*" --write "api/*,blockers/*" --notify critical',
    ),
    Verb(
        "agents", "team", "setup", "list the agents and when each was last seen", "synapse agents"
    ),
    Verb(
        "where",
        "team",
        "setup",
        "show which workspace is used here, and why",
        "synapse where --json",
    ),
    Verb(
        "trust",
        "team",
        "trust",
        "show and allow what a workspace starts, sends or writes",
        "synapse trust --show",
    ),
    Verb(
        "keys",
        "team",
        "keys",
        "list, make, rotate, revoke and hand on the keys of agents",
        "synapse keys new eng-backend",
    ),
    Verb(
        "completion",
        "team",
        "setup",
        "print the completion script for bash or zsh",
        'eval "$(synapse completion bash)"',
    ),
    Verb(
        "verify", "keep", "upkeep", "check the journal, and every file against it", "synapse verify"
    ),
    Verb(
        "checkpoint",
        "keep",
        "upkeep",
        "sign the journal as it is now, and keep that elsewhere",
        "synapse checkpoint --show",
    ),
    Verb(
        "repair",
        "keep",
        "upkeep",
        "restore damaged lines and files, or record their loss",
        "synapse repair --dry-run",
    ),
    Verb(
        "redact",
        "keep",
        "upkeep",
        "take the text of an entry out of the whole workspace",
        "synapse redact syn-2026-02-01-001 --reason 'a password'",
    ),
    Verb("rebuild", "keep", "upkeep", "build the index again from the log", "synapse rebuild"),
    Verb(
        "embed",
        "keep",
        "upkeep",
        "compute missing vectors for semantic search",
        "synapse embed --limit 1000",
    ),
    Verb("doctor", "keep", "upkeep", "check this machine and this workspace", "synapse doctor"),
    Verb(
        "defrag",
        "keep",
        "nightly",
        "archive superseded and expired entries; --plan only lists them",
        "synapse defrag --plan",
    ),
    Verb(
        "undo",
        "keep",
        "nightly",
        "undo an act, a maintenance run, or the last act",
        "synapse undo last --plan",
    ),
    Verb(
        "reputation",
        "keep",
        "nightly",
        "show what changed an agent's authority, step by step",
        "synapse reputation eng-backend",
    ),
    Verb(
        "stats",
        "keep",
        "nightly",
        "show what the nightly maintenance measured, over time",
        "synapse stats --nights 30",
    ),
    Verb(
        "export",
        "keep",
        "transfer",
        "write the whole log as JSON Lines",
        "synapse export backup.jsonl",
    ),
    Verb(
        "import",
        "keep",
        "transfer",
        "fill an empty workspace from an export or a snapshot",
        "synapse --root ./copy import backup.jsonl",
    ),
    Verb(
        "merge",
        "keep",
        "transfer",
        "merge another workspace, or two histories that git merged",
        "synapse merge ../other-clone/shared-memory",
    ),
    Verb(
        "migrate",
        "keep",
        "transfer",
        "import a synapse.json and a Cortex folder",
        "synapse migrate --synapse-json synapse.json --cortex ./cortex --dry-run",
    ),
    Verb(
        "backup",
        "keep",
        "transfer",
        "take a snapshot of the log and check it",
        "synapse backup ~/snapshots --keep 14",
    ),
)
VERBS = {verb.name: verb for verb in _TABLE}

# What a spawned run may not do: these act on the whole workspace, or show all of it, in the
# operator's name.
OPERATORS = frozenset(
    (
        "init register import merge repair redact export backup audit defrag embed"
        " reputation migrate trust stats doctor revoke checkpoint serve dashboard token webhooks"
    ).split()
)

# What works on a server, too, as the agent of the token. All else needs the folder.
REMOTE = frozenset(
    "write read search view remember atom link forget why send inbox ack threads thread poll"
    " recent what-did timeline unread watch log resolve approve reject vouch archive restore"
    " where completion".split()
)

ALIASES = {
    "synapse-write": "write",
    "synapse-read": "read",
    "synapse-view": "view",
    "synapse-register": "register",
}


# What a person needs in the first week.
FIRST = "init register write read search view send inbox serve doctor".split()

_FOOT = (
    "Everywhere, before or after the verb:",
    *WHERE,
    "  --root URL  a server, https://HOST; who acts is the agent of $SYNAPSE_TOKEN",
    "  --json      print JSON, errors too",
    "  --debug     show the traceback of an error",
    "",
    "Who acts is --from, who reads is --agent; else $SYNAPSE_AGENT. Reading without",
    "either is the operator's: everything. `synapse VERB --help` has an example each.",
    "",
)
overview = Help("synapse", "Shared memory for teams of agents.", GROUPS, VERBS, FIRST, _FOOT).text

PROGRAM = Program("synapse", VERBS, OPERATORS, overview, remote=REMOTE)
