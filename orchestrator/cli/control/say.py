"""`orchestrator say`: speak to all agents of the workspace, or to some of them, and see who hears
it now, and who at its next start.
"""

from __future__ import annotations

from textwrap import fill

from orchestrator.cli.frame.describe import source_of
from orchestrator.cli.frame.grid import grid
from orchestrator.cli.frame.options import read_text
from orchestrator.plugin.wakes.hearers import Hearer, hearers, ready
from orchestrator.reports.rows import find_run
from synapse.authority import visible
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.cli.frame.show import WIDTH
from synapse.errors import NotFound, SynapseError
from synapse.formats import codec
from synapse.model.clock import seconds
from synapse.model.entry import Entry
from synapse.privacy.records import masked_notice

EVERYBODY = "all"
HOLDS = "1d"  # what is said is about now: who starts tomorrow is not told
HEADERS = ("agent", "with", "hears it")


def say_options(parser: Options) -> None:
    add = parser.add_argument
    add("text", metavar="TEXT", help="the text; - reads standard input")
    add("--to", default=EVERYBODY, metavar="WHOM", help="an agent, a team or a run (default: all)")


def say(call: Call) -> None:
    text = read_text(call.args.text)
    at_work = ready(call.memory, _daemon_is_up(call))
    entry = call.memory.tell(_addressee(call), text, ttl=HOLDS)
    listeners = hearers(call.memory, entry, at_work)
    later = _starters(call, entry, listeners)
    call.show(
        lambda: {
            "entry": codec.entry_json(entry),
            "heard_by": [hearer._asdict() for hearer in listeners],
            "at_next_start": later,
        },
        lambda: _format(entry, listeners, later),
    )
    if notice := masked_notice(entry):
        call.note(f"{entry.id}: {notice}")


def _addressee(call: Call) -> str:
    """Return whom an agent's, a team's or a run's name means; of a run it is the agent."""
    whom, agents = str(call.args.to), call.memory.store.agents.all()
    names = {name for agent in agents.values() for name in agent.names}
    if whom == EVERYBODY or not names.isdisjoint((whom, f"agent:{whom}", f"team:{whom}")):
        return whom
    try:
        return f"agent:{find_run(source_of(call), whom)['agent']}"
    except NotFound:
        return whom  # `tell` says who there is


def _daemon_is_up(call: Call) -> bool:
    from orchestrator.plugin.daemon import ask

    try:
        return bool(ask(call.memory.store.root or call.root, "status"))
    except SynapseError:
        return False


def _starters(call: Call, entry: Entry, listeners: list[Hearer]) -> list[str]:
    """Return the agents that are told at the start of a next session or run."""
    now = {hearer.agent for hearer in listeners}
    agents = call.memory.store.agents.all().values()
    return [agent.id for agent in agents if agent.id not in now and visible(entry, agent)]


def _format(entry: Entry, listeners: list[Hearer], later: list[str]) -> str:
    table = grid(HEADERS, [[hearer.agent, hearer.engine, hearer.when] for hearer in listeners])
    starts = f"at the next start, until {seconds(entry.expires)}: {', '.join(sorted(later))}"
    lines = [
        entry.id,
        table if listeners else "nobody is at work now",
        *([fill(starts, WIDTH, subsequent_indent="  ")] if later else []),
        f"`synapse archive {entry.id}` takes it back",
    ]
    return "\n".join(lines)
