"""Memory: one open workspace, for whoever runs the team. The composition root; agents act through
their agent memories.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

from synapse.access.writer import incarnation
from synapse.agent_memory import AgentMemory
from synapse.authority import admit
from synapse.errors import Forbidden, InvalidEntry, NotFound, StoreCorrupt, StoreError, SynapseError
from synapse.index.reading import asks_again
from synapse.integrity.last_signed import last_signed
from synapse.log import is_database, open_log
from synapse.log.begun import Begun, Finish
from synapse.log.files import FilesLog
from synapse.model import clock as clocks
from synapse.model.agents import OPERATOR, ROLES, Agent, settled
from synapse.model.dates import When
from synapse.model.entry import Draft, Entry
from synapse.model.namespace import check_globs, matches_any
from synapse.model.records import Record, entry_of
from synapse.model.results import Event, Page, Problem, Rebuilt, Report
from synapse.store import Store
from synapse.system import plain_files
from synapse.system.checks import checked, fields_fit
from synapse.system.text import encodes
from synapse.system.typed import TYPE_CHECKING
from synapse.trust.persons import operators_alone

if TYPE_CHECKING:
    from synapse.integrity.schedule import Schedule
    from synapse.log.postgres.address import Address

__all__ = ["AgentMemory", "Event", "Memory", "Page", "Problem", "Rebuilt", "Report", "init", "open"]


@asks_again("agents", "last_seen", "questions", "audit", "digest")
@checked
class Memory:
    """One workspace. Threads may share it; close it, or use it in a `with` statement."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._agent_memories: dict[str, AgentMemory] = {}
        self._schedule: Schedule | None = None
        if isinstance(store.log, FilesLog):
            store.commit.subscribe(self._committed)
            store.finish_begun = partial(Begun(store.log.root).finish, self._finishes())

    def _finishes(self) -> dict[str, Finish]:
        """Return how to finish each kind of act that a killed process may have begun."""

        def redact(fields: Mapping[str, str]) -> None:
            from synapse.integrity.redaction import finish_redaction

            finish_redaction(self.store, fields["entry"])

        def restore(fields: Mapping[str, str]) -> None:
            from synapse.backup import finish_restore

            finish_restore(self.store, fields["path"])

        return {"redact": redact, "restore": restore}

    def _committed(self, records: Sequence[Record]) -> None:
        """Make a signed checkpoint where one is due, which every tenth record asks for."""
        first, last = records[0].seq, records[-1].seq
        if self._schedule is None and last // 10 != (first - 1) // 10:
            from synapse.integrity.schedule import Schedule

            self._schedule = Schedule(self.store, _sign)
        if self._schedule is not None:
            self._schedule.reached(first, last)

    # -- agents ------------------------------------------------------------------------------------

    def register(self, agent: Agent) -> Agent:
        """Declare an agent, or change what was declared; the agent with its role's rights filled
        in.
        """
        operators_alone("register")
        fields_fit(agent, f"agent {agent.id}")
        declared = agent
        agent = settled(agent)
        check_globs(agent.read or ())
        check_globs(agent.write or ())
        was = self.store.agents.all().get(agent.id)
        if agent.role not in ROLES and (was is None or was.role != agent.role):
            self._check_role(declared)
        if was != agent:
            self.store.commit.register(agent, OPERATOR, was)
            try:
                self.store.refresh()
                self.store.operator_files.sign(f"agents/{agent.id}.yaml")
            except StoreError:
                pass  # declared all the same: the index takes it in when it has room
        return agent

    def _check_role(self, agent: Agent) -> None:
        """Refuse a role that is neither known nor the workspace's own, unless the agent says all
        that it decides.
        """
        from synapse.model import roles

        problem = roles.unknown(agent.role, self.store.root)
        if problem and not roles.declares_all(agent):
            raise InvalidEntry(
                f"agent {agent.id}: {problem} (a role of your own has a template"
                f" prompts/ROLE.md.j2 in the workspace, or the agent is given read,"
                " write and authority)",
                id=agent.id,
                role=agent.role,
            )

    def agents(self) -> list[Agent]:
        """Return the registered agents."""
        return list(self.store.agents.all().values())

    def as_agent(self, id: str, run: str | None = None, epoch: int | None = None) -> AgentMemory:
        """Return the memory as this agent has it; `operator` reads everything and writes no
        entries.

        With a run and its epoch, as the agent has it in that incarnation of the run: a member of
        the run's project, and everything that it writes is refused once the run was taken over or
        has ended.
        """
        (spawned, current), own = incarnation(), os.environ.get("SYNAPSE_AGENT")
        if spawned and id != own:
            raise Forbidden(
                f"run {spawned} acts as {own} alone, not as {id}", agent=own, action=f"act as {id}"
            )
        if spawned and run is not None and (run, epoch) != (spawned, current):
            raise Forbidden(
                f"this process is run {spawned}, not {run}", agent=own, action=f"act for {run}"
            )
        if (run is None) != (epoch is None):
            raise InvalidEntry("a run's agent memory needs the run and its epoch")
        if current is not None:
            run, epoch = spawned, current
        if run is not None and epoch is not None:
            agent_memory = AgentMemory(self.store, id, run, epoch)
            # a run's files hold what its memory says: its engine is given what is sealed
            agent_memory.access.opens = bool(spawned)
            return agent_memory
        if id not in self._agent_memories:
            self._agent_memories[id] = AgentMemory(self.store, id)
        return self._agent_memories[id]

    def last_seen(self) -> dict[str, int]:
        """Return when each agent last wrote something or noted what it was shown."""
        self.store.refresh()
        with self.store.snapshot() as snap:
            return snap.last_active()

    # -- the operator's voice ----------------------------------------------------------------------

    def tell(
        self,
        whom: str,
        body: str,
        *,
        priority: str = "critical",
        re: str | None = None,
        ttl: str | None = None,
    ) -> Entry:
        """Say something in the operator's own name to a team, an agent or `all`, whom it reaches
        whatever they read, and return the entry. `re` is the entry that it is about; a question to
        the operator, or a blocker, is thereby answered, and done.
        """
        operators_alone("tell")
        subject = None if re is None else self.store.entry(re)
        to = "all" if whom == "all" else self._addressee(whom)
        kind, _, name = to.partition(":")
        namespaces = {"all": "global", "team": f"team/{name}"}
        draft = Draft(
            body,
            namespaces.get(kind, f"agents/{name}"),
            OPERATOR,
            priority,
            ttl,
            addressees=(to,),
            related=() if subject is None else (subject.id,),
        )
        entry = admit(
            draft, Agent(OPERATOR, "cto", authority=100, write=("*",)), self.store.settings
        )
        answer = entry_of(self.store.commit.append(Record.new("entry", OPERATOR, {}, entry)))
        if subject is not None and asks_operator(self, subject):
            self.store.commit.act(
                "resolve", OPERATOR, entry=subject.id, note=f"answered in {answer.id}"
            )
        return answer

    def questions(self) -> list[Entry]:
        """Return what is addressed to the operator and not done yet, oldest first."""
        operators_alone("ask for questions")
        self.store.refresh()
        with self.store.snapshot() as snap:
            return snap.addressed(f"agent:{OPERATOR}", self.store.clock())[::-1]

    def _addressee(self, whom: str) -> str:
        """Return a registered team or agent, as it is written in `to`."""
        addressees = frozenset().union(*(agent.names for agent in self.store.agents.all().values()))
        matches = [name for name in (whom, f"agent:{whom}", f"team:{whom}") if name in addressees]
        if len(matches) > 1:
            raise InvalidEntry(
                f"{whom} is an agent and a team: write {' or '.join(matches)}", to=whom
            )
        if not matches:
            from synapse.system.spelling import hint

            names = {name.partition(":")[2] for name in addressees}
            meant = hint(whom.partition(":")[2] or whom, names, "`synapse agents` lists them")
            raise NotFound(f"there is no team and no agent {whom}; {meant}", to=whom)
        return matches[0]

    # -- the log -----------------------------------------------------------------------------------

    def audit(
        self,
        *,
        agent: str | None = None,
        entry: str | None = None,
        since: When = None,
        limit: int | None = None,
    ) -> list[Record]:
        """Return who wrote, changed or was shown what, and why; newest first."""
        operators_alone("audit")
        return self.store.acts(agent, entry, since, limit)

    def verify(
        self, head: str | None = None, against: str | None = None, key: str | None = None
    ) -> Report:
        """Prove the journal's chain and every file against it, and the journal against the signed
        checkpoints that this person keeps, or those of a file or folder (`against`), by a public
        key that is this person's own unless it is named. `head` is what an earlier report ended
        with.
        """
        from synapse.integrity import repair

        return repair.verify(self.store, head, against, key)

    def repair(
        self, *, dry_run: bool = False, source: str | None = None, give_up: bool = False
    ) -> Report:
        """Put damaged lines of the journal back where the chain proves what they were, and files as
        the journal has them, and record what was done; then what `verify` still finds. `source` is
        another copy: a workspace, a snapshot or an export. With `give_up`, lines that cannot be had
        are recorded as lost, and those that are set aside as known. A dry run writes nothing,
        and its `notes` say what would be done.
        """
        from synapse.integrity import repair

        if not dry_run:
            operators_alone("repair")
        return repair.repair(self.store, dry_run=dry_run, source=source, give_up=give_up)

    def rebuild(self) -> Rebuilt:
        """Derive the index anew from the log, and say which files are not what the log says."""
        self.store.log.demand_writable()
        try:
            self.store.refresh(whole=True)
        except StoreCorrupt:
            operators_alone("give up what the journal lost")
            self.store.operator_files.signed = None  # the index is made of what is left
        count, sound = self.store.rebuild()
        self.store.refresh()
        self.store.operator_files.sign()
        return Rebuilt(count, self.store.index.digest(), () if sound else self.verify().problems)

    def digest(self) -> str:
        """Return a hash of all that was derived from the log; equal logs have equal digests."""
        self.store.refresh()
        return self.store.index.digest()

    def export(self, generation: str | None = None) -> Iterator[str]:
        """Yield the whole log, a line of JSON each, or its entries as another generation of the
        format has them.
        """
        from synapse import exchange

        operators_alone("export")
        self.store.refresh()
        if generation is None:
            yield from exchange.lines_out(self.store)
            return
        for path, text in exchange.entries_as(self.store, generation):
            line = (
                text
                if generation == "C"
                else json.dumps({"path": path, "text": text}, ensure_ascii=False)
            )
            yield f"{line}\n"

    def import_(self, lines: Iterable[str], *, believe: bool = False) -> int:
        """Take in an export, into a workspace that holds nothing yet; how many records came. What
        was written elsewhere counts for nothing until a person accepts it (`synapse trust
        --text`), unless it is to be believed.
        """
        from synapse import exchange

        operators_alone("import")
        return exchange.lines_in(self.store, lines, believe=believe)

    def close(self) -> None:
        """Close the workspace; what was acknowledged is on the disk already."""
        if self._schedule is not None:
            self._schedule.finish()
        self.store.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()


@checked
def init(
    root: str | os.PathLike[str],
    *,
    log: str | None = None,
    clock: Callable[[], int] = clocks.now,
    draw: Callable[[int], bytes] = os.urandom,
) -> Memory:
    """Make a directory a workspace and open it. What is there already stays as it is. `log` is the
    address of a database that holds the workspace's records: the directory is this machine's copy.
    """
    path = os.path.abspath(os.path.expanduser(_place(root)))
    from synapse.log.upkeep.make import make

    database = None
    if log is not None:
        from synapse.log.postgres.address import parse_address

        database = parse_address(log)
    plain_files.demand(path)
    if not os.path.lexists(os.path.join(path, "journal")):
        _forget_checkpoints(path)
    try:
        settings = make(path, database)
    except OSError as error:
        raise StoreError(f"{path} cannot be made a workspace: {error.strerror or error}") from error
    memory = _open(path, clock, draw, database)
    if settings and isinstance(memory.store.log, FilesLog):
        memory.store.log.accepted.note_file("synapse.yaml", settings)
    return memory


def _sign(store: Store, last: int) -> None:
    """Sign the journal up to a record, where that is wanted and can be done."""
    from synapse.integrity import checkpoints

    checkpoints.attempt(store, last)


def _forget_checkpoints(path: str) -> None:
    """Forget those of a workspace that was at this place before, where they are this person's."""
    with suppress(SynapseError):
        if last_signed(path):
            from synapse.integrity import checkpoints

            checkpoints.forget(path)


@checked
def open(
    address: str | os.PathLike[str],
    *,
    clock: Callable[[], int] = clocks.now,
    draw: Callable[[int], bytes] = os.urandom,
) -> Memory:
    """Open the workspace at a directory, or `memory:`. Never creates one: NotFound says how to.

    The address of a database, `postgresql://…`, opens the workspace that it holds, in a folder of
    this machine's that is made where it is not there.
    """
    path = _place(address)
    if is_database(path):
        from synapse.log.postgres.address import parse_address

        return init(parse_address(path).folder, log=path, clock=clock, draw=draw)
    return _open(path, clock, draw, None)


def _open(
    address: str, clock: Callable[[], int], draw: Callable[[int], bytes], database: Address | None
) -> Memory:
    log = open_log(address, clock, database=database)
    try:
        return Memory(Store(log, clock, draw))
    except OSError as error:
        log.close()
        raise StoreError(f"{address} could not be opened: {error}") from error
    except BaseException:
        log.close()
        raise


def _place(address: str | os.PathLike[str]) -> str:
    """Return an address as a text; InvalidEntry where no file can be called so."""
    path = os.fspath(address)
    if not isinstance(path, str) or "\0" in path or not encodes(path):
        raise InvalidEntry(f"{address!r} is no path: write one such as ~/shared-memory")
    if not path.strip():
        raise InvalidEntry("an empty path names no workspace: write '.' for this folder")
    return path


def asks_operator(memory: Memory, entry: Entry) -> bool:
    """Return whether an entry asks the operator, or is a blocker, and nobody has answered."""
    if matches_any(("blockers/*",), entry.namespace):
        with memory.store.snapshot() as snap:
            return snap.fate(entry, memory.store.clock()) is None
    return entry.id in {question.id for question in memory.questions()}
