"""The results of shared tools in the memory: looked up before a call, leased during it, written
after it. On the memory's thread; nothing here calls a tool or waits.

A result is an entry in `status/PROJECT` whose record has the act's key, which no agent can write.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any, NamedTuple

from orchestrator.runs.files.workspace import folder
from orchestrator.runs.repeats import age
from orchestrator.runs.statements import states_value
from orchestrator.tools.calls import Act, condensed
from synapse.access import claims
from synapse.access.claims import Claim
from synapse.agent_memory import AgentMemory
from synapse.authority import admit, may_replace, visible
from synapse.errors import Conflict, SynapseError
from synapse.model import namespace as ns
from synapse.model.agents import OPERATOR, Agent
from synapse.model.conditions import is_due
from synapse.model.entry import RANK, SECOND, Draft, Entry
from synapse.model.records import Record
from synapse.store import Store
from synapse.system.digest import sha256
from synapse.view import block, recall

BUSY = "busy"  # instead of an entry's id: it was told that somebody is at it
MINUTES = 10  # of a lease; every call of a tool that takes several renews it
NOTE = "taken by a supervisor for a shared tool"
AGAIN = "Call this once more to do it yourself"
LARGEST = 1 << 26  # bytes of a file that is read to see whether it has changed
DIFFERS = "differs"  # a tag of a result that contradicts an earlier one of the same call
UNLIKE = ", unlike {id} of {author}, so that nobody is given it until another agent gets the same"
STALE = "its result was stale, and the call was made again"

Files = Mapping[str, str]  # the digest of each file, by its path


class Look(NamedTuple):
    """What there is of an act. A `text` to give instead of the call, and its `entry`; or who holds
    the work, with the `parents` of all that run; or neither: the call is to be made. `own`: this
    very call gave it, before a crash. `files` are as of now, None where one is missing. `tokens`
    are what the call took whoever made it, as far as that is known."""

    text: str | None = None
    entry: Entry | None = None
    own: bool = False
    claim: Claim | None = None
    parents: Mapping[str, str | None] = {}
    stale: bool = False
    claimed: bool = False
    files: Files | None = None
    tokens: int = 0


class _Result(NamedTuple):
    """A result in the memory: its entry, whether that is live, and what is recorded of the call."""

    entry: Entry
    live: bool
    about: Mapping[str, Any]


class Findings:
    """The results of one workspace, as one supervisor uses them. `lives` tells of another one."""

    def __init__(
        self, store: Store, root: str, lives: Callable[[str], bool], lasting: bool = True
    ) -> None:
        self.store, self.root, self.lives, self.lasting = store, root, lives, lasting
        self._places: list[int] = []  # of the entries that are for a moment
        self._floor, self._turn = 0, -1  # up to where in which log they were looked for

    # -- before a call -----------------------------------------------------------------------------

    def begin(
        self,
        agent_memory: AgentMemory,
        act: Act,
        once: str,
        previous: str | None,
        longest: float,
        used: Callable[[Entry], bool] = lambda entry: False,
    ) -> Look:
        """Look up an earlier result of an act; if there is none and no claim, claim the work.
        `previous` is the id that this run was given last; neither that nor an entry whose value it
        has `used` is given: who asks all the same does not believe it."""
        agent, now = self._agent(agent_memory), self.store.clock()
        results = [result for result in self._results(act, agent) if visible(result.entry, agent)]
        own = next((result for result in results if result.about["call"] == once), None)
        if own is not None:
            return Look(self._whole(own), own.entry, own=True)
        fresh = next((result for result in results if self._is_fresh(result, act)), None)
        if fresh is not None and DIFFERS in fresh.entry.tags:
            return Look(files=digests(act.paths))
        # what was said of a stale one is stale too
        newest = fresh or next(iter(results), None)
        entry = self._known_entry(agent, act, newest.entry if newest else None, now)
        if entry is not None and previous != entry.id and not used(entry):
            return Look(_instead_of_call(entry, now), entry)
        is_new = fresh is not None and previous != fresh.entry.id and not used(fresh.entry)
        if entry is None and fresh is not None and is_new:
            text, tokens = (self._result_text(fresh, act, now), fresh.about.get("tokens", 0))
            return Look(text, fresh.entry, tokens=tokens)
        look = Look(stale=bool(results) and fresh is None, files=digests(act.paths))
        if fresh is not None or agent.review_required or look.files is None:
            return look
        return self._claim(agent_memory, act, now, look, previous, longest)

    def _claim(
        self,
        agent_memory: AgentMemory,
        act: Act,
        now: int,
        look: Look,
        previous: str | None,
        longest: float,
    ) -> Look:
        """Return the look with the claim that was taken, or with who else holds the work."""
        writer = agent_memory.writer
        minutes = min(max(MINUTES, ceil(longest / 30)), claims.LONGEST)
        claim = claims.holder(self.store, claims.named(act.work), now)
        dead_runs = set[str | None]()
        if claim is not None and (claim.agent, claim.run) == (writer.id, writer.run):
            if claim.until - now > minutes * 30 * SECOND:
                return look._replace(claimed=True)
        elif claim is not None:
            if not self.is_gone(claim):
                return self._with_claim(agent_memory, claim, look, previous)
            dead_runs.add(claim.run)
        try:
            claims.take(writer, act.work, minutes, NOTE, None, now, dead_runs)
        except Conflict as error:
            if "work" not in error.details:
                return look  # this incarnation is stale: its session hears of that
            fields: dict[str, Any] = error.details
            return self._with_claim(
                agent_memory, Claim(*(fields[name] for name in Claim._fields)), look, previous
            )
        return look._replace(claimed=True)

    def _with_claim(
        self, agent_memory: AgentMemory, claim: Claim, look: Look, previous: str | None
    ) -> Look:
        """Return the look with the claim, where its result would be for this agent to read."""
        run = self._run(claim)
        if previous == BUSY or claim.note != NOTE or run is None:
            return look
        if not ns.matches_any(self._agent(agent_memory).reads, f"status/{run['project']}"):
            return look
        with self.store.snapshot(late=True) as snap:
            running = snap.runs(state="running")
        parents = {str(row["run"]): row.get("parent") for row in running}
        return look._replace(claim=claim, parents=parents)

    def latest(self, agent: Agent, act: Act) -> Entry | None:
        """Return the newest result of an act that holds and that the agent may see."""
        return next(
            (
                result.entry
                for result in self._results(act, agent)
                if self._is_fresh(result, act)
                and DIFFERS not in result.entry.tags
                and visible(result.entry, agent)
            ),
            None,
        )

    def is_gone(self, claim: Claim) -> bool:
        """Return whether nobody is at it any more: the run has ended, or its process has."""
        run = self._run(claim)
        if run is None:
            return False
        return run["state"] != "running" or not self.lives(str(run.get("holder")))

    def _run(self, claim: Claim) -> dict[str, Any] | None:
        """Return the run that holds the work, None where it is held in no run that is known."""
        if not claim.run:
            return None
        with self.store.snapshot(late=True) as snap:
            return snap.run(claim.run)

    def _results(self, act: Act, agent: Agent) -> list[_Result]:
        """Return the results of an act that are believed, newest first, whatever became of them."""
        with self.store.snapshot() as snap:
            rows = snap.entries_under(act.key, self.store.clock(), agent)
        return [
            _Result(entry, live, fields["act"])
            for entry, live, fields in rows
            if "act" in fields and entry.trust != "unverified"
        ]

    def _is_fresh(self, result: _Result, act: Act) -> bool:
        """Tell whether a result holds for an act: in the same place, of the same files."""
        files, place = result.about["files"], result.about.get("place", "")
        is_held = result.live and not result.entry.disputed
        return is_held and place == act.place and files == digests(files)

    def _known_entry(self, agent: Agent, act: Act, result: Entry | None, now: int) -> Entry | None:
        """Return the weightiest entry that states the value of what a call asks for, weighs as much
        as the agent's own word, and comes after a result of the call and from above it; None where
        there is none.
        """
        if act.paths:
            return None  # what it asks for is in files, and changes with them
        with self.store.snapshot(words=True) as snap:
            matches = recall.matches(snap, agent, act.words, now)
        entries = [
            entry
            for entry in (match.entry for match in matches)
            if states_value(entry.body, entry.topic, act.words)
            and entry.when is None
            and not entry.namespace.startswith("blockers/")
            and entry.trust != "unverified"
            and not entry.disputed
            and entry.authority >= agent.rank
            and (result is None or (entry.seq > result.seq and entry.authority > result.authority))
        ]
        return max(
            entries,
            key=lambda entry: (-RANK[entry.priority], entry.authority, entry.seq),
            default=None,
        )

    # -- what is told ------------------------------------------------------------------------------

    def _result_text(self, result: _Result, act: Act, now: int) -> str:
        """Return a result as it is given to another agent than the one who got it."""
        entry, hint = result.entry, ""
        if result.about["whole"] and act.shares.whole:
            entry = entry._replace(body=entry.body[: result.about["head"]] + self._whole(result))
        elif result.about["whole"]:
            hint = " and get all of it"
        return _instead_of_call(entry, now, hint)

    def _whole(self, result: _Result) -> str:
        name = result.about["whole"]
        if name is None:
            return _short(result)
        try:
            return folder(self.store, self.root, str(result.entry.run)).read(name)
        except SynapseError:
            return _short(result)  # it is not here: another machine's, or swept away

    def busy(self, claim: Claim, waited: float) -> str:
        """Return what is told of work that somebody else does not come to an end with."""
        who = f"{claim.agent} (run {claim.run})"
        return (
            f"Not called: {who} is at this and has no result after {waited:g} s. "
            "Call this once more to do it yourself, or go on with something else."
        )

    # -- after a call ------------------------------------------------------------------------------

    def write_result(
        self, agent_memory: AgentMemory, act: Act, once: str, text: str, look: Look, tokens: int = 0
    ) -> Entry | None:
        """Write a result, and give the work back. None where nothing is shared: the files changed
        meanwhile, or the memory does not take it, which is no reason to lose the result."""
        try:
            return self._write_result(agent_memory, act, once, text, look, tokens)
        except SynapseError:
            return None
        finally:
            if look.claimed:
                self.release(agent_memory, act)

    def release(self, agent_memory: AgentMemory, act: Act) -> None:
        """Give the work back; a lease that cannot be ended ends with the run."""
        try:
            claims.release(agent_memory.writer, act.work, None, self.store.clock())
        except SynapseError:
            pass

    def _write_result(
        self, agent_memory: AgentMemory, act: Act, once: str, text: str, look: Look, tokens: int
    ) -> Entry | None:
        agent, files = self._agent(agent_memory), look.files
        if agent.review_required or files is None or files != digests(act.paths):
            return None
        namespace = f"status/{agent_memory.writer.project()}"
        results = [
            result for result in self._results(act, agent) if result.entry.namespace == namespace
        ]
        live, sha = [result for result in results if result.live], _sha(text)
        fresh = next((result for result in live if self._is_fresh(result, act)), None)
        same = fresh is not None and fresh.about["sha"] == sha
        if fresh is not None and same:
            confirmed = fresh.entry.author != agent.id
            if DIFFERS not in fresh.entry.tags or not confirmed:
                return fresh.entry
        unlike = fresh.entry if fresh is not None and not same else None
        body, head, file_name = self._body(agent_memory, act, once, text, unlike)
        evidence = f"runs/{agent_memory.writer.run}/{file_name}" if file_name else None
        draft = Draft(
            body,
            namespace,
            agent.id,
            ttl=act.shares.lifetime,
            topic=act.work,
            evidence=evidence,
            tags=(DIFFERS,) if unlike else (),
        )
        trust = agent_memory.access.trust(namespace)
        entry = self._admitted(draft, agent, [result.entry for result in live], trust)
        fields = {
            "call": once,
            "head": head,
            "sha": sha,
            "files": dict(files),
            "place": act.place,
            "whole": file_name,
            "tokens": tokens,
        }
        pending = Record.new("entry", agent.id, {"act": fields}, entry, key=act.key)
        record = agent_memory.writer.write(pending, once=f"{once}/shared")
        return self.store.entry(str(record.id))

    def _admitted(self, draft: Draft, agent: Agent, olds: Sequence[Entry], trust: str) -> Entry:
        """Return the entry that takes the place of older results. One of a higher authority would
        stand above it: the supervisor, which wrote that too, files it away."""
        entry = admit(draft, agent, self.store.settings, trust=trust)
        higher = [old.id for old in olds if old.authority > entry.authority]
        lower = tuple(old.id for old in olds if old.authority <= entry.authority)
        if higher:
            self.store.commit.act("archive", OPERATOR, ids=higher, reason=STALE)
        for old in olds:
            may_replace(agent, old, entry)
        return entry._replace(replaces=lower)

    def _body(
        self, agent_memory: AgentMemory, act: Act, once: str, text: str, unlike: Entry | None
    ) -> tuple[str, int, str | None]:
        """Return the text of a result's entry, where in it the result begins, and the file of the
        run that has the whole of a long one, which the entry names as its evidence. It says so
        where it is `unlike` the result before it.
        """
        why = UNLIKE.format(id=unlike.id, author=unlike.author) if unlike else ""
        head, short = f"{act.label}{why}: ", condensed(text, act.words)
        if short is None:
            return head + text, len(head), None
        run, name = str(agent_memory.writer.run), f"shared-{_sha(once)[:8]}.txt"
        folder(self.store, self.root, run, lasting=self.lasting).make().write(name, text)
        return f"{head}{short}", len(head), name

    # -- moments -----------------------------------------------------------------------------------

    def entries_for_call(
        self,
        agent_memory: AgentMemory,
        call: str,
        arguments: Mapping[str, Any],
        held: frozenset[str],
    ) -> list[Entry]:
        """Return the entries that are for the moment of this call and were not given to the run."""
        agent = self._agent(agent_memory)
        with self.store.snapshot() as snap:
            if snap.turn != self._turn:
                self._places, self._floor, self._turn = [], 0, snap.turn
            if snap.cursor > self._floor:
                self._places += snap.conditional(self._floor)
                self._floor = max(snap.cursor, *self._places[-1:], 0)
            if not self._places:
                return []
            entries = snap.standing(self._places, self.store.clock(), agent)
        return [
            entry
            for entry in entries
            if entry.id not in held
            and entry.run != agent_memory.writer.run
            and entry.trust != "unverified"
            and visible(entry, agent)
            and is_due(entry, call, arguments)
        ]

    def _agent(self, agent_memory: AgentMemory) -> Agent:
        agent = agent_memory.agent
        assert agent is not None  # a run is an agent's
        return agent


def digests(paths: Sequence[str] | Files) -> dict[str, str] | None:
    """Return the digest of each of these files; None where one cannot be read, is no plain file or
    is larger than what is worth reading for it.
    """
    result: dict[str, str] = {}
    for path in paths:
        full_path = os.path.abspath(os.path.expanduser(path))
        try:
            digest = _digest(os.open(full_path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        except (OSError, ValueError):
            return None
        if digest is None:
            return None
        result[full_path] = digest
    return result


def _digest(descriptor: int) -> str | None:
    with open(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            return None
        from hashlib import file_digest

        return file_digest(file, "sha256").hexdigest()


def _instead_of_call(entry: Entry, now: int, more: str = "") -> str:
    """Return an entry as it is given instead of a call that asks for what it says: quoted, with who
    says so and since when."""
    return (
        f"Not called: the memory has it, written by {entry.author} {age(now - entry.at)} ago.\n"
        f"{block.whole(entry, commands=False).text}{AGAIN}{more}."
    )


def _short(result: _Result) -> str:
    return result.entry.body[result.about["head"] :]


def _sha(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass"))
