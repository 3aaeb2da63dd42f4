"""`synapse init | register | agents`."""

from __future__ import annotations

import os

from synapse.cli.call import Call
from synapse.cli.options import Options, Usage
from synapse.cli.parse import many, number
from synapse.cli.show import clean, fields
from synapse.model.agents import Agent, Skill, settled
from synapse.model.entry import PRIORITIES
from synapse.system.typed import Any


def init_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "directory",
        nargs="?",
        metavar="DIR",
        help="where; else --root, else ./shared-memory if the project has none",
    )


def init(call: Call) -> None:
    from synapse import core
    from synapse.cli.scripts import write_scripts

    root = call.new_root()
    there = os.path.exists(os.path.join(root, "synapse.yaml"))
    with core.init(root):
        scripts = write_scripts(root)
    what = "was a workspace already; nothing in it was changed" if there else "is ready"
    call.show(
        lambda: {"root": root, "scripts": scripts, "there": there},
        lambda: clean(f"{root} {what}"),
    )


def register_options(parser: Options) -> None:
    add = parser.add_argument
    add("ids", nargs="?", metavar="ID", help="the agent, if not --id")
    add("--id", metavar="ID", help="a-z, 0-9, _ and -")
    add("--name", metavar="NAME", help="what people call it")
    add(
        "--role",
        metavar="R",
        help="cto, project-lead, engineer, specialist or your own; else engineer",
    )
    add("--department", metavar="D", help="its department: a team that it is in")
    add("--engine", metavar="E", help="what runs it, such as claude-code")
    add("--model", metavar="M", help="with which model")
    add("--authority", type=number, metavar="N", help="0 to 100; else the role's")
    add(
        "--read",
        action="append",
        metavar="GLOB,...",
        help="what it hears; else the role's",
    )
    add(
        "--write",
        action="append",
        metavar="GLOB,...",
        help="where it may write; else the role's",
    )
    add(
        "--notify",
        action="append",
        metavar="P,...",
        help=f"{', '.join(PRIORITIES)}; else critical",
    )
    add(
        "--team",
        action="append",
        metavar="T,...",
        help="teams it is in: it reads and writes what is theirs",
    )
    add(
        "--project",
        action="append",
        metavar="P,...",
        help="projects it is on: it reads and writes what is theirs",
    )
    add(
        "--skill",
        action="append",
        metavar="S",
        help="NAME=AUTHORITY:GLOB,...: authority only there",
    )
    add(
        "--review-required",
        action="store_true",
        help="what it writes waits for approval",
    )
    add("--user", metavar="U", help="the system user whose files are its own")


def register(call: Call) -> None:
    from synapse.history.sentences import differing

    declared = agent_of(call.args)
    was = call.memory.store.agents().get(declared.id)
    if was and _says_nothing(call.args):
        _refuse_to_wipe(was, settled(declared))
    agent = call.memory.register(declared)
    call.show(lambda: fields(agent), lambda: clean(described(agent)))
    if was and (changes := differing(was._asdict(), agent._asdict())):
        call.note(
            clean(f"{agent.id} was declared before; what changed: {'; '.join(changes)}")
        )


def _says_nothing(args: Any) -> bool:
    """Return whether a line names an agent, and says nothing of it."""
    return not any(
        value
        for name, value in vars(args).items()
        if name not in ("id", "ids", "root", "json", "debug")
    )


def _refuse_to_wipe(was: Agent, declared: Agent) -> None:
    from synapse.history.sentences import differing

    if lost := differing(was._asdict(), declared._asdict()):
        raise Usage(
            f"{was.id} is registered already: say what it is to be. Without that it"
            f" would be declared anew as an engineer: {'; '.join(lost)}"
        )


def agent_of(args: Any) -> Agent:
    """The agent that the options declare."""
    if (args.id is None) == (args.ids is None):
        raise Usage("which agent? Give --id ID")
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
    """`database=80:api/*,db/*`."""
    domain, equals, rest = text.partition("=")
    authority, colon, globs = rest.partition(":")
    if not (domain and equals and colon and authority.isdigit() and globs):
        raise Usage(f"--skill {text!r} is not of the form NAME=AUTHORITY:GLOB,...")
    return Skill(domain, int(authority), tuple(many([globs]) or ()))


def described(agent: Agent) -> str:
    lines = [
        f"{agent.id}: {agent.role}, authority {agent.authority}",
        f"  reads   {', '.join(agent.read or ()) or 'nothing'}",
        f"  writes  {', '.join(agent.write or ()) or 'nothing'}",
        *(
            [f"  member  of {', '.join(agent.memberships)}"]
            if agent.memberships
            else []
        ),
        f"  woken   {', '.join(agent.notify) or 'by nothing'}",
    ]
    return "\n".join(
        [*lines, *(["  review  required"] if agent.review_required else [])]
    )


def agents_options(parser: Options) -> None:
    """None of its own."""


def agents(call: Call) -> None:
    from synapse.cli.table import drawn
    from synapse.model import clock

    seen = call.memory.last_seen()
    found = sorted(call.memory.agents(), key=lambda agent: (-agent.rank, agent.id))
    when = {
        agent.id: clock.seconds(seen[agent.id]) if agent.id in seen else None
        for agent in found
    }
    rows = [
        [a.id, a.role, a.department or "-", str(a.authority), when[a.id] or "never"]
        for a in found
    ]
    call.show(
        lambda: {
            "agents": [
                {**fields(agent), "last_seen": when[agent.id]} for agent in found
            ]
        },
        lambda: (
            drawn(("id", "role", "department", "authority", "last seen"), rows)
            if rows
            else "no agents"
        ),
    )
