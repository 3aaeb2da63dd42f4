"""The checks of `synapse doctor --security`: who may write where the memory believes what it finds,
what the workspace asks for, and which entries nobody vouched for.

Nothing is changed here; each finding says what a person can do about it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator

from synapse.model.agents import OPERATOR
from synapse.system import home, ownership, plain_files
from synapse.system.findings import Finding, failed, run, some
from synapse.system.quoting import one_line
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.core import Memory

PRIVATE = tuple("journal entries knowledge messages inbox staging quarantine .index runs".split())
BELIEVED = ("synapse.yaml", "team.yaml", "agents", "prompts")
POWERFUL = 100  # the authority of a CTO


def examine(root: str, open_memory: Callable[[], Memory]) -> Iterator[Finding]:
    """Yield the findings of every check. A workspace with a link in it is not opened."""
    links = list(_links(root))
    yield from links
    if failed(links):
        return
    memory = open_memory()
    checks = (_access, _operator_files, _wants, _webhooks, _personal_folder, _rights)
    yield from run((*checks, _unverified, _review), root, memory)


def _links(root: str) -> Iterator[Finding]:
    """Check that the places of the workspace are files and folders of its own."""
    problems = [f"{path} {why}" for path, why in plain_files.faults(root)]
    yield from some("links", "fail", problems, "no link in a workspace is followed")
    if not problems:
        yield Finding("links", "ok", "no place is a link, a pipe or a device")


def _access(root: str, memory: Memory) -> Iterator[Finding]:
    """Check who may write anywhere in the workspace, and who may read what is private in it."""
    writable, readable = [], []
    for name in (".", *PRIVATE, "views", "archive"):
        path = os.path.normpath(os.path.join(root, name))
        if not os.path.isdir(path):
            continue
        mode = os.stat(path).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            writable.append(f"everybody may write in {path}; use chmod o-w")
        if name in PRIVATE and name != "inbox" and mode & (stat.S_IROTH | stat.S_IXOTH):
            readable.append(path)
    yield from some("access", "fail", writable, "")
    if readable and os.stat(root).st_mode & stat.S_IXOTH:
        text = (
            f"every user of this machine may read {', '.join(readable)};"
            f" use chmod -R o-rwx, or chmod 700 {root}"
        )
        yield Finding("access", "warn", text)
    elif not writable:
        yield Finding("access", "ok", "nobody else may read what is private here")


def _operator_files(root: str, memory: Memory) -> Iterator[Finding]:
    """Check that the files which declare agents, settings and prompts are the operator's."""
    owner = os.stat(root).st_uid
    problems, groups = [], []
    for name in BELIEVED:
        path = os.path.join(root, name)
        if not os.path.lexists(path):
            continue
        inside = sorted(os.listdir(path)) if os.path.isdir(path) else []
        for file in (path, *(os.path.join(path, one) for one in inside)):
            status = os.lstat(file)
            if why := ownership.unfit(status, owner):
                problems.append(f"{file}: {why}")
            elif status.st_mode & stat.S_IWGRP:
                groups.append(os.path.relpath(file, root))
    yield from some("operator's files", "fail", problems, "they are not believed")
    if groups:
        text = (
            f"a group may write {', '.join(groups[:5])}, and is believed;"
            " use chmod g-w unless you trust it with the rights of every agent"
        )
        yield Finding("operator's files", "warn", text)
    elif not problems:
        yield Finding("operator's files", "ok", "the owner's alone")


def _wants(root: str, memory: Memory) -> Iterator[Finding]:
    """Check what the workspace asks for beyond itself, and what of it a person trusted."""
    from synapse.trust import decisions

    wants = decisions.asked(memory.store.settings, root)
    waiting = decisions.open_wants(root, wants)
    lines = [one_line(want.line) for want in waiting]
    yield from some("asks for", "warn", lines, "none of it happens until you say `synapse trust`")
    for want in wants:
        if want not in waiting:
            yield Finding("asks for", "ok", f"trusted: {one_line(want.line)}")
    if not wants:
        yield Finding("asks for", "ok", "nothing beyond itself")


def _webhooks(root: str, memory: Memory) -> Iterator[Finding]:
    """Check where entries are sent, and what comes in from outside as whom."""
    from synapse.webhooks import inbound, status

    rows = status.states(memory.store)
    hooks, problems = inbound.declared(memory.store.settings, root)
    for row in rows:
        reader = f"what {row.reader} may see" if row.reader else "what is public"
        text = f"{row.name} sends {reader} to {row.url or 'nowhere'}: {row.state}"
        if row.dead:
            text += f"; {len(row.dead)} dead letters, `synapse webhooks resend {row.name}`"
        well = row.state == status.READY and not row.dead
        yield Finding("webhooks", "ok" if well else "warn", one_line(text))
    for hook in hooks.values():
        text = f"who knows {', '.join(hook.secrets)} writes as {hook.agent} in {hook.namespace}"
        yield Finding("hooks", "ok", one_line(f"{hook.name}: {text}"))
    for why in problems.values():
        yield Finding("hooks", "warn", one_line(why))
    if dict(memory.store.settings.other).get("partners"):
        from synapse import bundles

        partners, wrong = bundles.declared(memory.store)
        for partner in partners.values():
            text = f"{partner.name} writes as {partner.agent} in {partner.namespace}/*"
            yield Finding("partners", "ok", one_line(text))
        for why in wrong.values():
            yield Finding("partners", "warn", one_line(why))
    if not rows and not hooks and not problems:
        yield Finding("webhooks", "ok", "nothing is sent, and nothing comes in")


def _personal_folder(root: str, memory: Memory) -> Iterator[Finding]:
    """Check that the folder with the person's decisions is the person's alone."""
    path = home.operator_home()
    if not os.path.lexists(path):
        yield Finding("your folder", "ok", f"{path} does not exist: nothing is trusted")
        return
    problems = []
    for folder, _, names in os.walk(path):
        for file in (folder, *(os.path.join(folder, name) for name in names)):
            status = os.lstat(file)
            if status.st_uid not in (os.geteuid(), 0):
                problems.append(f"{file} belongs to user {status.st_uid}; delete it")
            elif not stat.S_ISLNK(status.st_mode) and status.st_mode & 0o077:
                problems.append(f"{file} is open to others; use chmod go-rwx")
    yield from some("your folder", "fail", problems, "")
    if not problems:
        yield Finding("your folder", "ok", f"{path} is yours alone")


def _rights(root: str, memory: Memory) -> Iterator[Finding]:
    """Check who has the rights of everybody, and whether more than one agent has them."""
    free = [agent for agent in memory.agents() if not agent.review_required]
    powerful = [agent.id for agent in free if (agent.authority or 0) >= POWERFUL]
    anywhere = [agent.id for agent in free if "*" in (agent.write or ())]
    if len(powerful) > 1:
        text = (
            f"{', '.join(powerful)} have authority {POWERFUL} or more: each may vouch for,"
            " resolve and file away what any other wrote"
        )
        yield Finding("rights", "warn", text)
    beyond = [id for id in anywhere if id not in powerful]
    if beyond:
        text = (
            f"{', '.join(beyond)} may write in every namespace, without the authority of"
            f" a CTO; give them globs, such as --write 'projects/NAME/*'"
        )
        yield Finding("rights", "warn", text)
    if len(powerful) <= 1 and not beyond:
        who = f"{powerful[0]} alone has" if powerful else "no agent has"
        yield Finding("rights", "ok", f"{who} the rights of all others")


def _unverified(root: str, memory: Memory) -> Iterator[Finding]:
    """Check for entries whose author nobody knows."""
    page = memory.as_agent(OPERATOR).read()
    ids = [entry.id for entry in page if entry.trust == "unverified"]
    if ids:
        some_ids = ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if ids[5:] else "")
        text = (
            f"{len(ids)} {'entry has' if len(ids) == 1 else 'entries have'} an author whom"
            f" nobody knows: {some_ids}; `synapse vouch --from AGENT ID` believes one,"
            " `synapse archive --from AGENT ID` puts it away"
        )
        yield Finding("unverified", "warn", text)
    else:
        yield Finding("unverified", "ok", "every entry shown has a known author")


def _review(root: str, memory: Memory) -> Iterator[Finding]:
    """Check how much waits for review."""
    count = len(memory.as_agent(OPERATOR).staged())
    if count:
        text = (
            f"{count} {'entry waits' if count == 1 else 'entries wait'}:"
            " `synapse approve --from AGENT` lists what that agent may approve"
        )
        yield Finding("review", "warn", text)
    else:
        yield Finding("review", "ok", "nothing waits")
