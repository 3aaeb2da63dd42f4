"""One call of the shell: its arguments, its agent, its workspace, and where its output goes."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence

from synapse.cli.frame.options import Usage
from synapse.cli.frame.program import Program, Verb
from synapse.errors import Conflict, Forbidden
from synapse.model.agents import OPERATOR
from synapse.system.quoting import clean
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from synapse.agent_memory import AgentMemory
    from synapse.client.memory import RemoteMemory
    from synapse.core import Memory
    from synapse.system.discovery import Location


def is_address(root: str) -> bool:
    """Return whether a root is the address of a server."""
    return root.startswith(("http://", "https://"))


MORE = "  "  # before the further lines of a note or an error: they may quote what others wrote


class Call:
    """The arguments of one call, and the memory that it opens when first asked. Closes it at its
    end.
    """

    def __init__(
        self, verb: Verb, args: Namespace, env: Mapping[str, str], program: Program
    ) -> None:
        self.args, self.verb = args, verb.name
        self.defaults = program.defaults
        self._location: Location | None = None
        self._database = ""  # the address of one, where that is what is meant
        self.json: bool = args.json
        self._env = env
        self._memory: Memory | None = None
        self._server: RemoteMemory | None = None
        if self.remote and verb.name not in program.remote:
            raise Usage(
                f"`{verb.program} {verb.name}` needs the folder of the workspace, and {self.root}"
                " is a server: run it where the folder is"
            )
        if self.remote and self.run:
            raise Forbidden(
                "SYNAPSE_RUN is set: a spawned run works in the folder of its workspace",
                action=verb.name,
            )
        if self.run and verb.name in program.operators:
            raise Forbidden(
                (
                    f"SYNAPSE_RUN is set: a spawned run may not call `{verb.program}"
                    f" {verb.name}`, the operator may"
                ),
                agent=env.get("SYNAPSE_AGENT"),
                action=verb.name,
            )

    def __enter__(self) -> Call:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        if self._memory is not None:
            try:
                self._note_complaints(self._memory)
                if self.root.endswith(".log") and not self._memory.store.readonly:
                    self._keep_tables(self._memory)
            finally:
                self._memory.close()

    def _note_complaints(self, memory: Memory) -> None:
        """Say in a line that a file of the operator's has a mistake; not to a run, which cannot
        mend it.
        """
        complaints = (
            {} if self.run or self.verb == "doctor" else memory.store.operator_files.complaints
        )
        if complaints:
            path, texts = next(iter(complaints.items()))
            count = sum(map(len, complaints.values())) - 1
            remainder = f"; {count} more" if count else ""
            self.note(f"{path}: {texts[0]}{remainder}; `synapse doctor` names all")

    def _keep_tables(self, memory: Memory) -> None:
        """Update the tables of a brain after a command. If that fails, the next command does it."""
        from synapse.compat.tables import Tables, path_of
        from synapse.errors import SynapseError

        path = path_of(memory.store)
        if path is not None and os.path.exists(path):
            try:
                tables = Tables(memory.store, path)
                try:
                    tables.sync()
                finally:
                    tables.close()
            except SynapseError as problem:
                self.note(f"{path} is behind: {problem}")

    @property
    def run(self) -> str | None:
        """Return the spawned run that this shell is in; it acts only as its own agent."""
        return self._env.get("SYNAPSE_RUN") or None

    @property
    def root(self) -> str:
        return self.location.root

    @property
    def remote(self) -> bool:
        """Return whether a server is meant, and no folder."""
        root = self.args.root or self._env.get("SYNAPSE_ROOT") or ""
        return is_address(root)

    @property
    def location(self) -> Location:
        """Return the workspace that this call means, and why that one."""
        if self._location is None:
            from synapse.system import discovery

            if self.args.root == "":
                raise Usage("--root is empty")
            self._location = discovery.locate(self.args.root, defaults=self.defaults)
            if self._location.root.startswith("postgres"):
                self._name_copy(self._location)
        return self._location

    def _name_copy(self, location: Location) -> None:
        """Have a database be meant by the folder that is this machine's copy of it."""
        from synapse.log import is_database
        from synapse.log.postgres.address import parse_address

        if is_database(location.root):
            self._database = location.root
            self._location = location._replace(root=parse_address(location.root).folder)

    def new_root(self) -> str:
        """Return where `init` makes a workspace: never in the home directory unless that is said,
        and no second one in a project unless its directory is named.
        """
        from synapse.system import discovery

        directory = self.args.directory or self.args.root or self._env.get("SYNAPSE_ROOT")
        if directory:
            root = os.path.abspath(os.path.expanduser(directory))
            if discovery.work_tree(os.path.dirname(root)) is not None:
                discovery.refuse_link_out(root)
            return root
        existing, root = discovery.of_project(), os.path.abspath(discovery.FOLDER)
        discovery.refuse_link_out(root)
        if existing is not None and os.path.realpath(existing.root) != root:
            raise Conflict(
                f"this folder has a workspace already: {existing.root}"
                f" ({existing.reason});"
                f" {discovery.other_than(existing.root)}",
                root=existing.root,
            )
        return root

    @property
    def memory(self) -> Memory:
        return self.open() if self._memory is None else self._memory

    @property
    def current_memory(self) -> Memory:
        """Return the memory, opened anew where a person accepted the workspace since."""
        return self.open() if self.memory.store.outdated else self.memory

    def open(self) -> Memory:
        from synapse import core

        root = self.root
        self._memory = memory = core.open(self._database or root)
        memory.store.index.say = self.note
        if not self.run:
            from synapse.integrity.last_signed import missed

            if missed(memory.store) is not None:
                from synapse.integrity import checkpoints

                if warning := checkpoints.warning(memory.store):
                    self.note(warning)
        return memory

    def who(self, named: str | None) -> str | None:
        """Return the agent that the call acts as: `named`, else $SYNAPSE_AGENT, else None."""
        if named == "":
            raise Usage("the agent's name is empty")
        own = self._env.get("SYNAPSE_AGENT") or None
        if self.run and not own:
            raise Forbidden(
                "SYNAPSE_RUN is set without SYNAPSE_AGENT: the run has no agent to act as",
                action="act",
            )
        if self.run and named not in (None, own):
            raise Forbidden(
                f"this run acts as {own}, not as {named}", agent=own, action=f"act as {named}"
            )
        return named or own

    def as_agent(self, id: str | None) -> AgentMemory:
        """Return the memory of an agent; on a server that of the token's, which is meant where none
        is named. What it has of an agent's methods is the same (`docs/how-to/remote.md`).
        """
        if not self.remote:
            return self.memory.as_agent(id or OPERATOR)
        me = self._connected()
        if id is not None and id != me.id:
            raise Forbidden(
                f"this token is {me.id}'s, and cannot act as {id}",
                agent=me.id,
                action=f"act as {id}",
            )
        return me  # type: ignore[return-value]

    def _connected(self) -> RemoteMemory:
        if self._server is None:
            from synapse.client.memory import connect

            self._server = connect(self.root)
        return self._server

    def actor(self) -> AgentMemory:
        """Return the memory of the agent that writes: `--from`, else $SYNAPSE_AGENT. It is
        required, but on a server."""
        who = self.who(self.args.agent)
        if who is None and not self.remote:
            raise Usage("missing --from AGENT (or set SYNAPSE_AGENT)")
        return self.as_agent(who)

    def author(self, receivers: Sequence[str] = ()) -> AgentMemory:
        """Return the memory of the agent that writes. Where nobody is named and only one agent can
        be meant, beside the receivers, it is that one, and a note says so.
        """
        if self.remote or self.run or self.who(self.args.agent) is not None:
            return self.actor()
        others = self.memory.store.agents.all().keys() - {
            name.removeprefix("agent:") for name in receivers
        }
        if len(others) != 1:
            return self.actor()
        (only,) = others
        self.note(f"as {only}, the only agent that can be meant; --from names another")
        return self.as_agent(only)

    def reader(self) -> AgentMemory:
        """Return the memory of the agent that reads: `--agent`, else $SYNAPSE_AGENT, else the
        operator, or the token's."""
        return self.as_agent(self.who(self.args.agent))

    def agent(self) -> str:
        """Return the agent that the call is about, which must be named, but on a server."""
        who = self.who(self.args.agent)
        if who is None and self.remote:
            return self._connected().id
        if who is None:
            raise Usage("missing --agent AGENT (or set SYNAPSE_AGENT)")
        return who

    def show(self, data: object | Callable[[], object], text: str | Callable[[], str]) -> None:
        """Print the one or the other form; what is costly to make comes as a function."""
        if self.json:
            from synapse.cli.frame.show import to_json

            self.say(to_json(data() if callable(data) else data))
        elif output := text() if callable(text) else text:
            self.say(output)

    def say(self, line: str) -> None:
        """Print a text. A terminal gets the colours that a verb put into it; whatever else reads it
        gets nothing that is not plain text, whoever forgot to clean it."""
        stream = sys.stdout
        print(line if stream is None or stream.isatty() else clean(line))

    @property
    def interactive(self) -> bool:
        """Return whether a person can answer: input and output are both a terminal."""
        return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))

    def ask(self, question: str) -> str:
        """Return the answer of whoever sits at the terminal; empty where there is none."""
        try:
            return input(question)
        except EOFError:
            return ""

    def flush(self) -> None:
        sys.stdout.flush()

    def note(self, line: str) -> None:
        """Print a line for people on standard error, unless JSON was asked for."""
        if not self.json:
            print(clean(line).replace("\n", f"\n{MORE}"), file=sys.stderr)

    def note_older(self, next: str | None) -> None:
        """Say how older rows are asked for, where there are some."""
        if next is not None:
            self.note(f"there are older ones: --before {next}")

    def show_done(self, act: str, ids: Sequence[str]) -> None:
        """Print that an act was done to each of the items."""
        for id in ids:
            self.show({"id": id, "done": act}, f"{act} {id}")
