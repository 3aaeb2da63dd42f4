"""The checks of one coding client that has the memory, from its program to what the plugin costs.

Called by the shell; `programs` starts the programs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from orchestrator.plugin import facts
from orchestrator.plugin.daemon import SESSIONS, ask
from orchestrator.plugin.doctor import programs
from orchestrator.plugin.facts import Facts
from orchestrator.plugin.hooks.context import Context
from orchestrator.plugin.install import apply, record
from orchestrator.plugin.install.change import Target
from orchestrator.plugin.install.installer import module_of
from orchestrator.plugin.install.place import AGENTS_MD
from orchestrator.plugin.sessions import state
from orchestrator.plugin.sessions.runs import ClientRuns
from orchestrator.plugin.sessions.settings import clients
from orchestrator.plugin.sessions.state import ClientSession
from synapse import core
from synapse.access.readers import unread
from synapse.core import Memory
from synapse.errors import NotFound, StoreError, SynapseError
from synapse.mcp import installation
from synapse.system.findings import Finding, run
from synapse.system.tokens import Tokens

VERSION_WITHIN = 20.0  # seconds
RECENT = 7 * 86_400  # seconds in which a fault of a hook is worth telling
_NUMBER = re.compile(r"\d+(?:\.\d+)+")


def examine(target: Target) -> list[Finding]:
    """Return all findings about one client, in the order in which it is given the memory. Of one
    that is not installed only that is told: all the rest would fail for the same reason.
    """
    if target.client == AGENTS_MD:
        return [*run((configuration,), target)]
    client_facts = facts.load(target.client)
    findings = [*run((program,), target, client_facts), *run((configuration,), target)]
    if _is_installed(target):
        findings += run((client_checks, workspace), target)
        findings += run((hook, daemon, events, cost), target, client_facts)
        findings += run((faults,), target)
    return findings


def _is_installed(target: Target) -> bool:
    try:
        is_moved = record.moved_from(target) is not None
        return not is_moved and record.key_of(target) in record.read(target)
    except SynapseError:
        return True  # its record is damaged, which the configuration's check tells


# -- the client ------------------------------------------------------------------------------------


def program(target: Target, client_facts: Facts) -> Iterator[Finding]:
    """Look for the client, and at its version."""
    command = str(client_facts.raw.get("command", target.client))
    path = shutil.which(command, path=target.env.get("PATH"))
    if path is None:
        yield Finding(
            "client",
            "fail",
            f"{command} is not on PATH",
            f"install it, or put it on PATH: {command}",
        )
        return
    version = _version([path, *client_facts.raw.get("version", ["--version"])], target)
    if version is None:
        yield Finding(
            "client",
            "warn",
            f"{path} does not say its version; seen working: {client_facts.verified}",
        )
    elif _parts(version) == _parts(client_facts.verified):
        yield Finding("client", "ok", f"{command} {version}")
    else:
        age = "newer" if _parts(version) > _parts(client_facts.verified) else "older"
        mend = f"if something fails below, use {client_facts.verified}"
        yield Finding(
            "client",
            "warn",
            f"{command} {version} is {age} than {client_facts.verified}, the version tried",
            mend,
        )


def _version(words: Sequence[str], target: Target) -> str | None:
    try:
        done = subprocess.run(
            words,
            env=dict(target.env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=VERSION_WITHIN,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _NUMBER.search((done.stdout or done.stderr).decode(errors="replace"))
    return match.group() if match else None


def _parts(version: str) -> list[int]:
    return [int(number) for number in _NUMBER.findall(version)[0].split(".")]


def configuration(target: Target) -> Iterator[Finding]:
    """Compare what is on the disk with what an installation would write."""
    mend = f"orchestrator install {target.client}{' --user' if target.user else ''}"
    if (before := record.moved_from(target)) is not None:
        detail = f"the project was moved here from {before}"
        yield Finding("configuration", "fail", detail, mend)
        return
    if record.key_of(target) not in record.read(target):
        location = "for this user" if target.user else f"in {target.project}"
        yield Finding("configuration", "fail", f"not installed {location}", mend)
        return
    try:
        prepared = apply.prepare(target, module_of(target.client).plan(target))
    except SynapseError as error:
        yield Finding("configuration", "fail", str(error), f"mend the file, then: {mend}")
        return
    wrong = [edit.path for edit in prepared.edits if edit.changes]
    if wrong:
        verb = "is missing or was edited" if len(wrong) == 1 else "are missing or were edited"
        yield Finding("configuration", "fail", f"{', '.join(wrong[:3])} {verb}", mend)
    elif prepared.changes:
        yield Finding("configuration", "warn", "a command of the client's was not run yet", mend)
    else:
        count = len(prepared.edits)
        files = "1 file is as it was" if count == 1 else f"{count} files are as they were"
        yield Finding("configuration", "ok", f"{files} installed")


def client_checks(target: Target) -> Iterator[Finding]:
    """Ask the client's own module, which knows what only this client has: trust, switches."""
    function = getattr(module_of(target.client), "examine", None)
    if function is not None:
        yield from function(target)


# -- the memory ------------------------------------------------------------------------------------


def workspace(target: Target) -> Iterator[Finding]:
    """Open the workspace, and see whether it can be written and has the agents."""
    if target.root is None:
        yield Finding("workspace", "ok", "that of the folder in which a session runs")
        return
    try:
        with core.open(target.root) as memory:
            declared = clients(dict(memory.store.settings.other))
            missing = {declared.lead, declared.default, *declared.agents.values()} - set(
                memory.store.agents.all()
            )
            readonly = memory.store.readonly
            unread = unread_namespaces(memory)
    except (SynapseError, OSError) as error:
        yield Finding("workspace", "fail", str(error), f"synapse --root {target.root} doctor")
        return
    if readonly:
        mend = f"give this user the right to write in {target.root}"
        yield Finding("workspace", "fail", f"{target.root} can be read, not written", mend)
    elif missing:
        names = ", ".join(sorted(missing))
        yield Finding(
            "workspace",
            "warn",
            f"not registered: {names}",
            f"synapse register --id {min(missing)} --role R",
        )
    else:
        yield Finding("workspace", "ok", target.root)
    if unread:
        counts = ", ".join(f"{name} ({count})" for name, count in unread.items())
        file = os.path.join(target.root, "agents", f"{declared.lead}.yaml")
        yield Finding(
            "rights",
            "warn",
            f"entries that no session reads, by the rights of its agents: {counts}",
            f"add {', '.join(unread)} to `read` in {file}",
        )


def unread_namespaces(memory: Memory) -> dict[str, int]:
    """Return the namespaces whose entries no agent of the clients may read, with their numbers."""
    store = memory.store
    settings = clients(dict(store.settings.other))
    project = settings.project_of(store.root or "")
    names = {settings.lead, settings.default, *settings.agents.values()}
    agents = [agent.joined(project) for id, agent in store.agents.all().items() if id in names]
    store.refresh()
    with store.snapshot() as snap:
        return unread(snap, agents, store.clock())


# -- the hook --------------------------------------------------------------------------------------


def hook(target: Target, client_facts: Facts) -> Iterator[Finding]:
    """Start the hook's program on a workspace that is thrown away."""
    mend = f"orchestrator install {target.client}; then look into {_log(target)}"
    own_reply = programs.try_start(target, client_facts)
    if own_reply.problem:
        yield Finding("hook", "fail", own_reply.problem, mend)
        return
    yield Finding("hook", "ok", f"answers a start in {own_reply.milliseconds:.0f} ms on its own")
    longest = programs.longest(client_facts, own_reply.answers)
    cap = cap_of_start(client_facts)
    verdict = "ok" if longest <= cap else "fail"
    yield Finding(
        "caps", verdict, f"{longest} of {cap} characters at a start with more to say than fits"
    )


def daemon(target: Target, client_facts: Facts) -> Iterator[Finding]:
    """Ask the workspace's daemon how it is, and the hook through it with an event that means
    nothing.
    """
    if target.root is None:
        return
    try:
        answer = ask(target.root, "status")
    except NotFound:
        detail = "not up: the next hook starts it, but where CI is set"
        yield Finding("daemon", "ok", detail)
        return
    except StoreError as error:
        mend = "end that process; the next hook starts another"
        yield Finding("daemon", "warn", f"{error}; hooks work alone", mend)
        return
    purpose = "sessions" if answer["scope"] == SESSIONS else "sessions and runs"
    up = f"up for {purpose}, process {answer['pid']}"
    if answer["outdated"]:
        mend = f"orchestrator --root {target.root} down"
        detail = f"{up}, on other code than is installed: hooks work alone"
        yield Finding("daemon", "warn", detail, mend)
        return
    yield Finding("daemon", "ok", up)
    trial = programs.try_unknown_event(target, client_facts)
    detail = trial.problem or f"answers in {trial.milliseconds:.0f} ms"
    mend = f"orchestrator install {target.client}; then look into {_log(target)}"
    verdict, mend = ("fail", mend) if trial.problem else ("ok", "")
    yield Finding("hook, daemon", verdict, detail, mend)


def faults(target: Target) -> Iterator[Finding]:
    """Tell of the newest fault that the hook's log has of this client."""
    try:
        with open(_log(target), encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file if f" {target.client} " in line]
        age = time.time() - os.stat(_log(target)).st_mtime
    except OSError:
        return
    if lines and age < RECENT:
        yield Finding(
            "hook log",
            "warn",
            f"{len(lines)} faults, the last: {lines[-1][:200]}",
            f"see {_log(target)}",
        )


def _log(target: Target) -> str:
    if target.root is not None:
        return os.path.join(target.root, "runs", ".hooks.log")
    base = target.env.get("XDG_STATE_HOME") or os.path.join(target.home, ".local", "state")
    return os.path.join(base, "synapse", "hooks.log")


def events(target: Target, client_facts: Facts) -> Iterator[Finding]:
    """Say when each event of the client last reached us."""
    if target.root is None:
        return
    last_times: dict[str, float] = {}
    for _, session in state.stored_sessions(target.root):
        if session.client == target.client:
            for name, moment in session.fired.items():
                last_times[name] = max(moment, last_times.get(name, 0.0))
    if not last_times:
        mend = f"begin a session in {target.project}, say something, and ask again"
        yield Finding("events", "warn", "none has come yet", mend)
        return
    now = time.time()
    times = ", ".join(
        f"{name} {_ago(now - moment)}"
        for name, moment in sorted(last_times.items(), key=lambda pair: -pair[1])
    )
    starts = [
        name for name, event_facts in client_facts.events.items() if event_facts.name == "start"
    ]
    missing = [name for name in starts if name not in last_times]
    if missing:
        yield Finding(
            "events", "warn", f"{', '.join(missing)} never came; {times}", "begin a new session"
        )
    else:
        yield Finding("events", "ok", times)


def _ago(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds / size)} {unit} ago"
    return "just now"


# -- what it costs ---------------------------------------------------------------------------------


def cost(target: Target, client_facts: Facts) -> Iterator[Finding]:
    """Say what the plugin adds to each request, and count the view that a session would get now."""
    tools = programs.list_tools(target)
    if isinstance(tools, str):
        mend = (
            installation()
            if find_spec("mcp_types") is None
            else f"orchestrator install {target.client}"
        )
        yield Finding("mcp server", "fail", tools, mend)
    else:
        yield Finding("mcp server", "ok", f"starts, and has {len(tools)} tools")
    version = f"; measured with {client_facts.verified}"  # not with what is there
    yield Finding("adds", "ok", describe_added(client_facts.raw) + version)
    if "older" in client_facts.raw:
        added = describe_added(client_facts.raw["older"])
        yield Finding("adds, older models", "ok", added + version)
    if target.root is not None:
        with core.open(target.root) as memory:
            text = "\n".join(view_of_lead(memory, client_facts))
        count = f"{Tokens().count(text):,} tokens, once in a conversation, as the memory is now"
        yield Finding("view", "ok", count if text else "none: the memory has nothing to say yet")


def describe_added(measured: Mapping[str, Any]) -> str:
    """Return what the plugin adds to each request of a client when the memory has nothing to say,
    as it was measured: clients do not send the tools of a server as they are.
    """
    tools, listing = measured["adds"]["tools"], measured["adds"]["listing"]
    main, agent = measured["baseline"]["request"], measured["baseline"]["agent"]
    share, of_agent = (f"{100 * (tools + listing) / own:.1f} % of " for own in (main, agent))
    counts = (
        f"{tools:,} tokens of tools, {listing:,} of listings"
        if tools
        else f"{listing:,} tokens of listings"
    )
    return f"{counts} = {share}its own {main:,}; {of_agent}{agent:,} in a sub-agent"


def view_of_lead(memory: Memory, client_facts: Facts) -> tuple[str, ...]:
    """Return what a main conversation would be given now; nothing is kept of it."""
    declared = clients(dict(memory.store.settings.other))
    agent = memory.store.agents.all().get(declared.lead)
    if agent is None:
        return ()
    context = Context(
        ClientRuns(memory, ClientSession(client_facts.client, "doctor")), client_facts.length
    )
    return context.opening(
        agent, memory.as_agent(agent.id), "", cap_of_start(client_facts), (), client_facts.parts
    ).parts


def cap_of_start(client_facts: Facts) -> int:
    """Return how much the client takes at a start."""
    return min(
        (
            event_facts.cap
            for event_facts in client_facts.events.values()
            if event_facts.name == "start"
        ),
        default=0,
    )
