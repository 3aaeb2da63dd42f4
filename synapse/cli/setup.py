"""The verbs that set a workspace up: `init`, `register`, `agents`, `where`, `completion`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from synapse.cli.frame.call import Call
from synapse.cli.frame.completion import SHELLS
from synapse.cli.frame.options import Options, Usage
from synapse.cli.frame.parse import many, number
from synapse.cli.frame.scripts import upgrade_scripts, write_scripts
from synapse.cli.frame.show import clean, one_line
from synapse.errors import NotFound, SynapseError
from synapse.model.agents import RESERVED, Agent, Skill, settled
from synapse.model.entry import PRIORITIES
from synapse.system import discovery
from synapse.system.typed import Any
from synapse.wire.forms import fields

_COMPLETION_CASES = """\
        view) [[ $cur == -* ]] || words="$words $(_synapse_agents)" ;;
        export|import) [[ $cur == -* ]] || { COMPREPLY=($(compgen -f -- "$cur")); return; } ;;"""


def init_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "directory",
        nargs="?",
        metavar="DIR",
        help="the new workspace (default: --root, else ./shared-memory)",
    )
    add("--log", metavar="URL", help="the database that holds its records: postgresql://…")


def init(call: Call) -> None:
    from synapse import core

    root = call.new_root()
    existed = os.path.exists(os.path.join(root, "synapse.yaml"))
    with core.init(root, log=call.args.log):
        scripts = write_scripts(root)
    state = "was a workspace already; nothing in it was changed" if existed else "is ready"
    call.show(
        lambda: {"root": root, "scripts": scripts, "there": existed},
        lambda: clean(f"{root} {state}"),
    )


def register_options(parser: Options) -> None:
    add = parser.add_argument
    add("ids", nargs="?", metavar="ID", help="the agent, instead of --id")
    add("--id", metavar="ID", help="a-z, 0-9, _ and -")
    add("--name", metavar="NAME", help="the name that people use")
    add(
        "--role",
        metavar="R",
        help="cto, project-lead, engineer, specialist or your own (default: engineer)",
    )
    add("--department", metavar="D", help="its department, which is also a team")
    add("--engine", metavar="E", help="the engine that runs it, such as claude-code")
    add("--model", metavar="M", help="the model that it uses")
    add("--authority", type=number, metavar="N", help="0 to 100 (default: the role's)")
    add(
        "--read",
        action="append",
        metavar="GLOB,...",
        help="namespaces it may read (default: the role's)",
    )
    add(
        "--write",
        action="append",
        metavar="GLOB,...",
        help="namespaces it may write (default: the role's)",
    )
    add(
        "--notify",
        action="append",
        metavar="P,...",
        help=f"{', '.join(PRIORITIES)} (default: critical)",
    )
    add(
        "--team",
        action="append",
        metavar="T,...",
        help="its teams, whose namespaces it reads and writes",
    )
    add(
        "--project",
        action="append",
        metavar="P,...",
        help="its projects, whose namespaces it reads and writes",
    )
    add(
        "--skill",
        action="append",
        metavar="S",
        help="NAME=AUTHORITY:GLOB,...: an authority for these namespaces",
    )
    add("--review-required", action="store_true", help="everything it writes waits for approval")
    add("--user", metavar="U", help="the system user whose files count as its own")


def register(call: Call) -> None:
    from synapse.history.sentences import format_changes

    declared = agent_of(call.args)
    was = call.memory.store.agents.all().get(declared.id)
    if was and _says_nothing(call.args):
        _refuse_to_wipe(was, settled(declared))
    agent = call.memory.register(declared)
    if call.memory.store.root:
        upgrade_scripts(call.memory.store.root)
    call.show(lambda: fields(agent), lambda: format_agent(agent))
    if was and (changes := format_changes(was._asdict(), agent._asdict())):
        call.note(clean(f"{agent.id} was declared before; what changed: {'; '.join(changes)}"))


def _says_nothing(args: Any) -> bool:
    """Return whether a command names an agent, and declares nothing of it."""
    return not any(
        value
        for name, value in vars(args).items()
        if name not in ("id", "ids", "root", "json", "debug")
    )


def _refuse_to_wipe(was: Agent, declared: Agent) -> None:
    from synapse.history.sentences import format_changes

    if lost := format_changes(was._asdict(), declared._asdict()):
        raise Usage(
            f"{was.id} is registered already: give its role and rights again. Without them it"
            f" would be declared anew as an engineer: {'; '.join(lost)}"
        )


def agent_of(args: Any) -> Agent:
    """Return the agent that the options declare."""
    if (args.id is None) == (args.ids is None):
        raise Usage("missing --id ID")
    notify = many(args.notify)
    return Agent(
        args.id or args.ids,
        role=args.role or "engineer",
        name=args.name,
        department=args.department,
        engine=args.engine,
        model=args.model,
        authority=args.authority,
        read=many(args.read),
        write=many(args.write),
        notify=("critical",) if notify is None else notify,
        teams=many(args.team) or (),
        projects=many(args.project) or (),
        skills=[skill(text) for text in args.skill or ()],
        review_required=args.review_required,
        user=args.user,
    )


def skill(text: str) -> Skill:
    """Read a skill such as `database=80:api/*,db/*`."""
    domain, equals, grant = text.partition("=")
    authority, colon, globs = grant.partition(":")
    if not (domain and equals and colon and authority.isdigit() and globs):
        raise Usage(f"--skill {text!r} is not of the form NAME=AUTHORITY:GLOB,...")
    return Skill(domain, int(authority), tuple(many([globs]) or ()))


def format_agent(agent: Agent) -> str:
    lines = [
        f"{agent.id}: {agent.role}, authority {agent.authority}",
        f"  reads   {', '.join(agent.read or ()) or 'nothing'}",
        f"  writes  {', '.join(agent.write or ()) or 'nothing'}",
        *([f"  member  of {', '.join(agent.memberships)}"] if agent.memberships else []),
        f"  woken   {', '.join(agent.notify) or 'by nothing'}",
    ]
    lines += ["  review  required"] if agent.review_required else []
    return "\n".join(map(one_line, lines))


def agents_options(parser: Options) -> None:
    """Declare no options."""


def agents(call: Call) -> None:
    from synapse.model import clock

    last_seen = {id: clock.seconds(at) for id, at in call.memory.last_seen().items()}
    agents = sorted(call.memory.agents(), key=lambda agent: (-agent.rank, agent.id))
    me = call.who(None)
    if me is not None:  # of others an agent is told what it takes to address them
        last_seen = {id: at for id, at in last_seen.items() if id == me}
    rows = [
        {**fields(agent), "last_seen": last_seen.get(agent.id)}
        if me in (None, agent.id)
        else {name: getattr(agent, name) for name in _ADDRESS}
        for agent in agents
    ]
    call.show(lambda: {"agents": rows}, lambda: _format_agents(agents, last_seen))


# What an agent is told of others.
_ADDRESS = ("id", "role", "name", "department", "teams", "projects", "authority")


def _format_agents(agents: Iterable[Agent], last_seen: Mapping[str, str]) -> str:
    from synapse.cli.frame.table import draw_table

    rows = []
    for agent in agents:
        department, last = agent.department or "-", last_seen.get(agent.id, "never")
        rows.append((agent.id, agent.role, department, str(agent.authority), last))
    columns = ("id", "role", "department", "authority", "last seen")
    return draw_table(columns, rows) if rows else "no agents"


def completion_options(parser: Options) -> None:
    """Declare the shell."""
    parser.add_argument("shell", choices=SHELLS, help="bash or zsh")


def completion(call: Call) -> None:
    text = completion_script(call.args.shell)
    call.show(lambda: {"shell": call.args.shell, "script": text}, lambda: text.rstrip("\n"))


def completion_script(shell: str) -> str:
    """Return the completion script of `synapse` for a shell."""
    from synapse.cli.frame.completion import script
    from synapse.cli.verbs import ALIASES, PROGRAM

    return script(shell, PROGRAM, _COMPLETION_CASES, ALIASES)


def where_options(parser: Options) -> None:
    """Declare no options."""


def where(call: Call) -> None:
    """Print the root on a line of its own, for scripts, below it the rule that gave it, and the
    namespaces that nobody reads.
    """
    location = call.location
    if call.remote:
        _where_server(call)
        return
    root = os.path.abspath(location.root)
    if not discovery.is_workspace(root):
        problem = f"{root}, {location.reason}, is no workspace"
        raise NotFound(f"{problem}; {discovery.advice(root)}", id=root)
    namespaces = _unread(call)
    data = {**fields(location), "root": root, "reason": location.reason, "unread": namespaces}
    call.show(data, lambda: _place(root, location.reason, namespaces))


def _place(root: str, reason: str, namespaces: dict[str, int]) -> str:
    lines = [root, f"  {reason}"]
    if namespaces:
        counts = ", ".join(f"{name} ({count})" for name, count in namespaces.items())
        lines.append(f"  no agent but the author may read what stands in {counts}")
    return "\n".join(map(clean, lines))


def _unread(call: Call) -> dict[str, int]:
    """Return the namespaces whose entries their authors alone may read, with their numbers; none
    where a single agent is registered, or the memory cannot be read.
    """
    from synapse.access.readers import unread

    try:
        store = call.memory.store
        agents = [agent for agent in store.agents.all().values() if agent.id not in RESERVED]
        if len(agents) < 2:
            return {}
        store.refresh()
        with store.snapshot() as snap:
            return unread(snap, agents, store.clock(), alone=False)
    except SynapseError:
        return {}


def _where_server(call: Call) -> None:
    location, agent = call.location, call.as_agent(None).id
    reason = f"a server, {location.reason}; the token is {agent}'s"
    data = {**fields(location), "agent": agent, "reason": reason}
    call.show(data, clean(f"{location.root}\n  {reason}"))
