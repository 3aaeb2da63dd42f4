"""`synapse view`: the briefing, printed or written to views/."""

from __future__ import annotations

import os

from synapse.cli.call import Call
from synapse.cli.options import Options, Usage
from synapse.cli.parse import number
from synapse.cli.show import fields, line
from synapse.formats import codec
from synapse.model.agents import OPERATOR
from synapse.model.namespace import is_component
from synapse.system.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from synapse.model.entry import Entry
    from synapse.view.view import View


def view_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "ids",
        nargs="?",
        metavar="AGENT",
        help="whose; else --agent, else $SYNAPSE_AGENT",
    )
    add("--agent", metavar="AGENT", help="the same, as an option")
    add("--department", metavar="D", help="what every agent of this department may see")
    add("--budget", type=number, metavar="N", help="at most so many tokens")
    add("--as-of", metavar="TIME", help="as it would have been at this time")
    add(
        "--write",
        action="store_true",
        help="write views/AGENT.md (or D.md) in the workspace",
    )


def view(call: Call) -> None:
    args = call.args
    name = _whose(call)
    me = call.memory.as_agent(name)
    found = me.briefing(
        budget=args.budget, department=args.department, as_of=args.as_of
    )
    later = me.later(args.as_of, args.department) if args.as_of else None
    path = (
        _write(call.root, args.department or name, found.markdown())
        if args.write
        else None
    )
    call.show(lambda: view_json(found, later), lambda: path or shown(found, later))


def _whose(call: Call) -> str:
    """The agent whose view it is; that of a department may be the operator's to ask for."""
    args = call.args
    if args.ids and args.agent:
        raise Usage("which agent? It is given twice")
    if args.write and args.as_of:
        raise Usage("--write is for the view of now, --as-of for looking back")
    args.agent = args.ids or args.agent
    return call.who(args.agent) or OPERATOR if args.department else call.agent()


def view_json(view: View, later: list[Entry] | None) -> dict[str, Any]:
    found = fields(view)
    rest = (
        {} if later is None else {"later": [codec.entry_json(entry) for entry in later]}
    )
    return {"markdown": found.pop("text"), **found, **rest}


def shown(view: View, later: list[Entry] | None) -> str:
    text = view.markdown().rstrip("\n")
    if later is None:
        return text
    lines = [f"  {line(entry)}" for entry in later] or ["  nothing"]
    return "\n".join(
        [text, "", "-- what came later and would have changed it:", *lines]
    )


def _write(root: str, name: str, text: str) -> str:
    """Replace the file in one step, so that nobody reads half a view."""
    if not is_component(name):
        raise Usage(f"{name!r} is not the name of an agent or a department")
    folder = os.path.join(root, "views")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{name}.md")
    fresh = f"{path}.{os.getpid()}"
    with open(fresh, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
    os.replace(fresh, path)
    return path
