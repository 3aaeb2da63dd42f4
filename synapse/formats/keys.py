"""Every key that the operator's files may have, and what each means.

`declared` and the orchestrator compare files with these tables, and `docs/generate.py` makes
docs/reference/settings.md of them. `*` stands for a name of the user's. A key that begins with `x-`
is an extension's: it may stand wherever names are not the user's own, and nothing here reads it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from synapse.system.spelling import closest
from synapse.system.typed import Any, NamedTuple

EXTENSION = "x-"
RUN_BLOCKS = (
    "limits",
    "prices",
    "engine",
    "engines",
    "tools",
    "schedule",
    "backup",
    "retention",
    "consolidation",
)

_BOUNDS = {
    "depth": "how far below its root a run may be",
    "children": "runs begun",
    "live": "runs alive at once",
    "turns": "calls of a model",
    "tokens": "tokens read and written",
    "usd": "dollars",
    "seconds": "seconds, or a span such as 30m",
}


def _bounds(block: str, whose: str) -> dict[str, str]:
    return {f"{block}.{name}": f"{meaning}: {whose}" for name, meaning in _BOUNDS.items()}


SETTINGS: Mapping[str, str] = {
    "protocol": "the number of the format; a workspace of a newer one is refused",
    "name": "the name of the workspace",
    "workspace": "the same, in the original specification",
    "log": "the database that holds the records, postgresql://…; without it, this folder does",
    "namespaces": "a list: other namespaces are told of; a block: as `ttl`",
    "namespaces.*": "how long entries below this pattern live",
    "ttl.*": (
        "how long entries below this pattern live that do not say it themselves: 24h, 7d, never"
    ),
    "authority": "roles: as registered; flat: 60 for all but the cto",
    "staging.ttl": "how long an entry waits for review",
    "staging.limit": "how many may wait",
    "users.*": "the agent that a user of this machine is, by name or number",
    "global_write": "the authority that it takes to write in `global`; 101 for nobody",
    "size_limits.per_namespace": "bytes of one namespace, such as 500KB; or off",
    "size_limits.total_shared": "bytes of all namespaces together",
    "size_limits.per_entry": "bytes of one entry",
    "size_limits.archive_retention": "is read and has no effect: the archive keeps everything",
    "size_limits.*": "bytes of the namespaces below this pattern",
    "quota.default": "entries a day of each agent; or off",
    "quota.*": "entries a day of this agent",
    "hourly.criticals": (
        "critical entries of one author in an hour, else 1000; or off. What is beyond is important"
    ),
    "hourly.entries": "entries of one author in an hour, else 100000; or off. What is beyond is"
    " refused",
    "hourly.bytes": "text of one author in an hour, else 1GB; or off. What is beyond is refused",
    "unverified.runs": (
        "limit or allow: whether what a run writes after it was shown an unverified entry is"
        " unverified too"
    ),
    "reputation": "report, on or off: whether what agents do moves their authority",
    "semantic.embedder": "what makes vectors for search by meaning: local, ollama, openai, off",
    "semantic.model": "its model",
    "semantic.url": "the address of its server",
    "semantic.key": "the name of the environment's variable with the server's key",
    "semantic.search": "off: searches go by words unless they ask for more",
    "privacy.personal": (
        "mask, refuse or off: what is done with personal data in a text that is not marked, else"
        " mask"
    ),
    "privacy.patterns.*": (
        "personal data of your own, such as EMP-######: # for a digit, ? for a letter"
    ),
    "mirror.synapse_json": "the old file of mail to write anew after every act on mail",
    "mirror.until": "the last date on which that is done",
    **_bounds("limits.run", "of one run"),
    **_bounds("limits.tree", "of a run and all below it"),
    **_bounds("limits.department.*", "of a department; `*` for each that is not named"),
    **_bounds("limits.day", "of the workspace in a day"),
    "limits.zone": "where the day of `limits.day` begins, such as Europe/Berlin; else UTC",
    "prices.*.input": "dollars for a million tokens that this model reads",
    "prices.*.output": "dollars for a million tokens that it writes",
    "prices.*.cached": "dollars for a million tokens read from the provider's cache",
    "prices.*.written": "dollars for a million tokens written to it",
    "prices.*.call": "dollars for each call",
    "engine": "what runs agents for which nobody names one; else the provider whose key is set",
    "engines.*.kind": "which engine this name of yours stands for",
    "engines.*.*": "an option of that engine",
    "tools.*.shares": "true, false or whole: the same call of this tool gives the same result"
    " to anyone",
    "tools.*.lifetime": "how long a result holds: 30m, 1h, 7d; else as long as what is in status/*",
    "tools.*.files": "a list of the arguments that name files which it reads",
    "schedule.zone": "where the time of `schedule.defrag` is; else UTC",
    "schedule.defrag": 'when the nightly job runs, such as "02:30"; or off',
    "backup.dir": "where a snapshot goes after the nightly job; a whole path",
    "backup.keep": "how many snapshots stay; else all",
    "retention.runs": "how long ended runs keep their steps and prompts: 90d; else for ever",
    "checkpoints.every": "records from one signed checkpoint to the next, at least 10; or off",
    "checkpoints.copy": "a second folder that checkpoints go to, beside the person's own",
    "consolidation.semantic.engine": "the engine that proposes merges",
    "consolidation.semantic.model": "its model",
    "consolidation.semantic.max_tokens": "tokens that a night's proposals may take",
    "consolidation.semantic.max_usd": "dollars that they may take",
    "clients.lead": "the agent that a session of a coding client is; else lead",
    "clients.default": "the agent that its sub-agents are; else engineer",
    "clients.agents.*": "the agent that sub-agents of this type are, such as Explore: researcher",
    "clients.project": "the project that they work on; else named after the folder",
    "webhooks.*.url": "where entries are sent as they come: https://HOST/PATH",
    "webhooks.*.secret": (
        "the name of the environment's variable with the secret that signs them, such as"
        " SYNAPSE_KEY_CHAT, or a file outside of the workspace; two of them while one takes over"
    ),
    "webhooks.*.as": "the agent whose rights it has; without one it sends what is public",
    "webhooks.*.namespaces": "patterns of the namespaces that are sent; else all",
    "webhooks.*.priorities": "the priorities that are sent; else all",
    "webhooks.*.agents": "the authors whose entries are sent; else all",
    "hooks.*.verify": "how a delivery from outside is proven: standard, github or token",
    "hooks.*.secret": "where its secret is, as for a webhook",
    "hooks.*.agent": "the agent that writes it",
    "hooks.*.namespace": "where it is written",
    "hooks.*.body": "its text, with {paths.into.the.json}",
    "hooks.*.priority": "its priority, with paths as well; else info",
    "hooks.*.topic": "its topic, with paths as well",
    "hooks.*.tags": "a list of its tags, with paths as well",
    "partners.*.key": "the public key of another organisation's workspace, as `synapse keys"
    " export-public` prints it there",
    "partners.*.agent": "the agent that it is here: what it may read is handed out, and it writes",
    "partners.*.namespace": "where its entries go, each in its own namespace below this one",
    "version": "of the original specification; has no effect",
    "implementation": "of the original specification; has no effect",
    "consolidator": "of the original specification; has no effect",
}

AGENT: Mapping[str, str] = {
    "agent.id": "a-z, 0-9, _ and -; also the file's name",
    "agent.name": "what people call it",
    "agent.role": "what fills in the rights that are left out, and which prompt it gets",
    "agent.department": "its department, which is a team",
    "agent.engine": "what runs it",
    "agent.model": "with which model",
    "agent.authority": "0 to 100; else the role's",
    "agent.user": "the user of this machine whose files are its own",
    "agent.teams": "teams that it is in",
    "agent.projects": "projects that it is on",
    "agent.review_required": "true: what it writes waits for approval",
    "subscriptions.read": "patterns of what it reads; else the role's",
    "subscriptions.write": "patterns of where it writes; else the role's",
    "subscriptions.notify": "priorities that reach it while it works; else critical",
    "skills.domain": "the name of a skill",
    "skills.level": "for people",
    "skills.namespaces": "patterns of where the skill counts",
    "skills.authority": "the authority there",
}

TEAM: Mapping[str, str] = {
    "lead": "who plans, gives out the work and reports",
    "engineers": "a list of who works side by side",
    "cto": "who sets the goal",
    "qa": "who tests",
    "engine": "what runs agents whose file names none: auto, or an engine",
    "models.*": "the model for this engine",
    "script": "what scripted agents say: MODULE:FUNCTION",
    "view_budget": "tokens that the memory may take in each prompt; or auto",
    "max_tokens": "tokens for all of it together",
    "max_usd": "dollars for all of it together",
    "max_reply": "tokens of one reply at most; each call reserves them (default: 8192)",
    "memory_tools": "auto, always or never: when agents are offered the memory's tools",
    "tools.*.shares": "true, false or whole: the same call of this tool gives the same result"
    " to anyone",
    "tools.*.lifetime": "how long a result holds: 30m, 1h, 7d; else as long as what is in status/*",
    "tools.*.files": "a list of the arguments that name files which it reads",
}


class Stray(NamedTuple):
    """A key that no table has: its path, with dots, and what to write instead."""

    path: str
    text: str


Tree = dict[str, Any]


def concerns(path: str, blocks: Collection[str]) -> bool:
    """Return whether a key is of one of these blocks of synapse.yaml, or is none that anybody
    knows.
    """
    top = path.partition(".")[0]
    return top in blocks or top not in {key.partition(".")[0] for key in SETTINGS}


def strays(fields: Mapping[str, Any], table: Mapping[str, str]) -> Iterator[Stray]:
    """Yield the keys of a file that are in no table and are no extension's."""
    return _strays(fields, _tree(table), "")


def without_extensions(fields: Mapping[str, Any], table: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a file without the keys that are an extension's, but for those at its
    top.
    """
    tree = _tree(table)
    return {key: _prune(value, tree.get(key, {})) for key, value in fields.items()}


def is_extension(key: str, tree: Tree) -> bool:
    """Return whether a key is an extension's; where names are the user's own, one may begin with
    anything.
    """
    return key.startswith(EXTENSION) and "*" not in tree


def _prune(value: Any, tree: Tree) -> Any:
    if isinstance(value, list):
        return [_prune(item, tree) for item in value]
    if not isinstance(value, Mapping) or not tree:
        return value
    names = (key for key in value if not is_extension(key, tree))
    return {key: _prune(value[key], tree.get(key) or tree.get("*") or {}) for key in names}


def agent_table() -> dict[str, str]:
    """Return the keys of an agent's file, whose two blocks may be left out."""
    flat = {
        path.partition(".")[2]: text
        for path, text in AGENT.items()
        if not path.startswith("skills")
    }
    return {**AGENT, **flat}


def _strays(fields: Mapping[str, Any], tree: Tree, prefix: str) -> Iterator[Stray]:
    names = [name for name in tree if name != "*"]
    for key, value in fields.items():
        close = None if key in tree else closest(key, names)
        subtree = tree.get(key) if key in tree else tree.get("*")
        if is_extension(key, tree):
            continue
        if subtree is None or (close is not None and "/" not in key and names):
            path = f"{prefix}{key}"
            advice = f"it is one of {', '.join(names)}"
            advice = f"did you mean {close}?" if close else advice
            own = f"a key of your own begins with {EXTENSION}"
            yield Stray(path, f"{path} is not known: {advice} ({own})")
            continue
        for inner in value if isinstance(value, list) else [value]:
            if subtree and isinstance(inner, Mapping):
                yield from _strays(inner, subtree, f"{prefix}{key}.")


def _tree(table: Mapping[str, str]) -> Tree:
    root: Tree = {}
    for path in table:
        branch = root
        for name in path.split("."):
            branch = branch.setdefault(name, {})
    return root


# -- what a key can ask for beyond the workspace ---------------------------------------------------

START = "start a program"
IMPORT = "import a module"
SEND = "send"
WRITE = "write outside of the workspace"
RECEIVE = "take in"
DELETE = "delete"
