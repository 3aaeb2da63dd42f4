"""`synapse migrate`: what there was before, taken over whole or not at all."""

from __future__ import annotations

from synapse.cli.call import Call
from synapse.cli.options import Options, Usage
from synapse.cli.show import clean, fields
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.compat.migrate import Migration


def migrate_options(parser: Options) -> None:
    add = parser.add_argument
    add("--synapse-json", metavar="FILE", help="the old file of messages")
    add(
        "--cortex",
        metavar="DIR",
        help="a folder with stm.json, collections/, atoms, links and vectors",
    )
    add(
        "--agent",
        default="helios",
        metavar="AGENT",
        help="who keeps the knowledge; else helios",
    )
    add(
        "--model",
        metavar="NAME",
        help="which model made the vectors that do not say it",
    )
    add(
        "--dry-run",
        action="store_true",
        help="only read and check, and say what would be written",
    )


def migrate(call: Call) -> None:
    from synapse.compat.migrate import migrate as recover

    args = call.args
    if args.synapse_json is None and args.cortex is None:
        raise Usage("name --synapse-json FILE, --cortex DIR, or both")
    told = recover(
        call.memory,
        args.synapse_json,
        args.cortex,
        agent=args.agent,
        model=args.model,
        dry=args.dry_run,
    )
    call.show(lambda: fields(told), lambda: clean(_told(told)))


def _told(told: Migration) -> str:
    """The counts, a line each; then who is new here."""
    from synapse.cli.table import drawn

    heads = (
        "",
        "read",
        "repeated",
        "written" if told.written else "to write",
        "here before",
    )
    lines = [drawn(heads, [(each.kind, *map(str, each[1:])) for each in told.counts])]
    if told.agents:
        lines.append(
            f"{'registered' if told.written else 'to register'}: {', '.join(told.agents)}"
        )
    lines += [f"{old} is {new} here" for old, new in told.renamed.items()]
    return "\n".join(lines)
