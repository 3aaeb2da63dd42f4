"""Plays one session of a real client, with the plugin or without, and returns its records.

A record is a line of JSON; what stands in it was seen at the edges: the requests that the model
server got, the client's own transcripts, the pages that were served, the memory, the repository
afterwards.

session     format, client, version, cell, arm, seed, encoding, chances, elapsed (seconds)
result      fresh, cached, written, replied (tokens), usd: the client's own report of the session
request     agent (lead, task-1, task-2, side), tokens (of the whole request), hooks (of them,
            tokens that hooks put there)
call        agent, tool, subject (of a file from the repository on, or an address), denied (by a
hook) transcript  agent, replies, tokens (sent), replied: by the client's own file page        name:
a page of the documentation was served entry       id, agent, namespace, tags, tokens: what the
memory holds afterwards run         agent, status, tokens, turns: a run of the memory, with the
usage in its record verdict     task, ok: by the repository afterwards
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import synapse
from orchestrator.engines.protocol import Message, Tool
from orchestrator.engines.scripted import Seen
from orchestrator.plugin.transcripts.transcript import spent
from scenarios.clients import places, repository
from scenarios.clients.agents import INSTEAD, REMINDER, Agents, Chances, asked_of
from scenarios.clients.places import Broken, Place, Site
from scenarios.clients.repository import Cell, Job
from scenarios.provider import messages
from scenarios.provider.server import ModelServer, Taken
from synapse.system.tokens import DEFAULT

FORMAT = "brain-suite/clients-v1"
ARMS = ("without", "plugin")
MODEL = "claude-sonnet-4-5"
PAUSE = 0.2  # seconds that a model thinks
PATIENCE = 180.0
SETTLED_WITHIN = 10.0
# what the client writes before the text of a hook
BESIDE = " hook additional context: "
ANY = (Tool("any", "", {}),)

Record = dict[str, Any]


class Wanted(NamedTuple):
    """One session to be played."""

    client: str
    program: str
    version: str
    cell: Cell
    arm: str
    seed: int
    chances: Chances


def play(wanted: Wanted, count: Callable[[str], int]) -> list[Record]:
    """Return the records of one session."""
    job = repository.job(wanted.cell, wanted.seed)
    # What the client has started may write for a moment after its end.
    with (
        tempfile.TemporaryDirectory(prefix="clients-", ignore_cleanup_errors=True) as folder,
        places.site(folder) as site,
    ):
        site.values = job.values
        site_folder = places.make_place(os.path.realpath(folder), wanted.program, job.values)
        if wanted.arm == "plugin":
            places.install(site_folder, wanted.client)
        agents = Agents(wanted.seed, site_folder.repository, wanted.cell, wanted.chances, PAUSE)
        with ModelServer(agents, count=count) as server:
            began = time.monotonic()
            result = _run(wanted, site_folder, site, job, server.url)
            elapsed = round(time.monotonic() - began, 1)
        return [
            _head(wanted, elapsed),
            result,
            *requests(server.journal, count),
            *transcripts(site_folder),
            *({"kind": "page", "name": name} for name in site.served),
            *_memory(site_folder, count),
            *_verdicts(site_folder, job),
        ]


def _run(wanted: Wanted, place: Place, site: Site, job: Job, url: str) -> Record:
    """Run the client to its end; return what it reports."""
    plan = "\n\n".join(
        (
            "Plan: give each of these tasks to an agent.",
            *(repository.task_text(work, site.url) for work in job.works),
        )
    )
    env = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "any",
        "NODE_EXTRA_CA_CERTS": site.certificate[0],
    }
    command = [wanted.program, "-p", plan, "--output-format", "json", "--model", MODEL]
    try:
        done = subprocess.run(
            command,
            env={**place.env, **env},
            cwd=place.repository,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Broken(f"{wanted.client} was not done in {PATIENCE:.0f} s") from error
    if done.returncode:
        raise Broken(
            f"{wanted.client} ended with {done.returncode}: {(done.stderr or done.stdout)[-500:]}"
        )
    used = list(json.loads(done.stdout)["modelUsage"].values())
    names = {
        "fresh": "inputTokens",
        "cached": "cacheReadInputTokens",
        "written": "cacheCreationInputTokens",
    }
    names |= {"replied": "outputTokens"}
    sums = {name: sum(int(item[key]) for item in used) for name, key in names.items()}
    return {"kind": "result", **sums, "usd": round(sum(float(item["costUSD"]) for item in used), 6)}


def _head(wanted: Wanted, elapsed: float) -> Record:
    return {
        "kind": "session",
        "format": FORMAT,
        "client": wanted.client,
        "version": wanted.version,
        "cell": wanted.cell.name,
        "arm": wanted.arm,
        "seed": wanted.seed,
        "encoding": DEFAULT,
        "chances": wanted.chances._asdict(),
        "elapsed": elapsed,
    }


# -- what is seen afterwards -----------------------------------------------------------


def requests(journal: Sequence[Taken], count: Callable[[str], int]) -> Iterator[Record]:
    """Yield a record of each request for a reply, its tokens counted as the server counts them."""
    for request in journal:
        if not request.path.partition("?")[0].endswith("/messages"):
            continue
        body = messages.read(request.body)
        tokens = sum(count(block.text) for block in body.blocks)
        hooks = sum(count(text) for block in body.blocks for text in of_hooks(block.text))
        yield {"kind": "request", "agent": asked_of(body.seen)[0], "tokens": tokens, "hooks": hooks}


def of_hooks(text: str) -> Iterator[str]:
    """Yield the parts of a block of a request that hooks have put there."""
    for reminder in re.findall(r"<system-reminder>\n.*?</system-reminder>", text, re.DOTALL):
        if BESIDE in reminder:
            yield reminder
    if text.startswith(INSTEAD):
        yield text.partition(REMINDER)[0]


def transcripts(place: Place) -> Iterator[Record]:
    """Yield what the client's own files say: of each conversation its calls and its usage."""
    folder = os.path.join(place.home, ".claude", "projects")
    paths = sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)
    for path in paths:
        if not path.endswith(".jsonl"):
            continue
        lines = list(_lines(path))
        agent = _agent_of(lines)
        yield from (
            {"kind": "call", "agent": agent, **call} for call in _calls(lines, place.repository)
        )
        used = spent("claude-code", path)
        if used is not None:
            usage = {"tokens": used.usage.input_tokens, "replied": used.usage.output_tokens}
            yield {"kind": "transcript", "agent": agent, "replies": used.turns, **usage}


def _lines(path: str) -> Iterator[dict[str, Any]]:
    with open(path, encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _blocks(lines: Sequence[dict[str, Any]], role: str) -> Iterator[dict[str, Any]]:
    """Yield the blocks of the messages of one role."""
    for line in lines:
        message = line.get("message")
        if line.get("type") != role or not isinstance(message, dict):
            continue
        content = message.get("content")
        yield from (
            [{"type": "text", "text": content}] if isinstance(content, str) else content or ()
        )


def _agent_of(lines: Sequence[dict[str, Any]]) -> str:
    texts = [
        Message("user", block["text"], "task")
        for block in _blocks(lines, "user")
        if block.get("type") == "text"
    ]
    return asked_of(Seen("", tuple(texts), ANY))[0]


def _calls(lines: Sequence[dict[str, Any]], folder: str) -> Iterator[dict[str, Any]]:
    """Yield the calls of tools in a conversation, with what each is about."""
    results = {
        block["tool_use_id"]: block.get("content")
        for block in _blocks(lines, "user")
        if block.get("type") == "tool_result"
    }
    for block in _blocks(lines, "assistant"):
        if block.get("type") != "tool_use":
            continue
        arguments = block["input"]
        subject = str(arguments.get("file_path") or arguments.get("url") or "")
        if "://" in subject:
            subject = subject.rpartition("/")[2]  # the port is another one each time
        elif os.path.isabs(subject):
            subject = os.path.relpath(subject, folder)
        denied = INSTEAD in json.dumps(results.get(block["id"]))
        yield {"tool": block["name"], "subject": subject, "denied": denied}


def _memory(place: Place, count: Callable[[str], int]) -> Iterator[Record]:
    """Yield the entries and the runs that the workspace holds afterwards, where there is one."""
    if not os.path.isdir(place.root):
        return
    with synapse.open(place.root) as memory:
        _settle(memory)
        with memory.store.snapshot() as snap:
            entries = snap.all(memory.store.clock())
            runs = snap.runs(limit=100)
        for entry in entries:
            named = {
                "id": entry.id,
                "agent": entry.author,
                "namespace": entry.namespace,
                "tags": list(entry.tags),
            }
            yield {"kind": "entry", **named, "tokens": count(entry.body)}
        for run in runs:
            usage = run.get("usage") or {}
            yield {
                "kind": "run",
                "agent": run["agent"],
                "status": str(run.get("status") or run["state"]),
                "tokens": int(usage.get("input_tokens") or 0),
                "turns": int(run.get("turns") or 0),
            }


def _settle(memory: synapse.Memory) -> None:
    """Wait until the last hooks of a session have written that its runs are over."""
    end = time.monotonic() + SETTLED_WITHIN
    while time.monotonic() < end:
        memory.store.refresh(whole=True)
        with memory.store.snapshot() as snap:
            if not snap.runs(state="running", limit=1):
                return
        time.sleep(0.1)


def _verdicts(place: Place, job: Job) -> Iterator[Record]:
    """Yield whether each task was done right."""
    for work in job.works:
        path = os.path.join(place.repository, repository.PACKAGE, f"{work.target}.py")
        with open(path, encoding="utf-8") as file:
            yield {
                "kind": "verdict",
                "task": work.name,
                "ok": repository.is_right(work, file.read(), job.values),
            }
