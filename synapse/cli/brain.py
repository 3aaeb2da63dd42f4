"""The console script `brain`: the verbs of mail and knowledge, on the workspace of a brain.

The workspace is --root, else $SYNAPSE_ROOT, else that of the brain at $SYNAPSE_BRAIN (the path of
its `brain.db`), else the one of the project that the current folder belongs to; outside of projects
that of the document's own brain where there is one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from synapse import cli as shell
from synapse.cli import knowledge
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.cli.frame.program import DEFAULTS, Help, Program, Verb
from synapse.cli.frame.show import clean, one_line
from synapse.cli.process import end
from synapse.cli.verbs import OPERATORS, VERBS
from synapse.compat.brain import DB_PATH
from synapse.errors import NotFound
from synapse.system.typed import NoReturn
from synapse.wire.forms import fields

GROUPS = {"mail": "Mail", "know": "Know", "find": "Find", "keep": "Look after it"}
_OURS = {
    "mail": "send inbox poll ack threads thread",
    "know": "remember atom link forget why provenance",
    "find": "search recent",
    "keep": "init register agents migrate export embed check",
}
_MORE = {
    "provenance": Verb(
        "provenance", "know", "brain", "same as why: trace an item back to its conversation",
        "brain provenance fact_0123456789ab",
    ),
    "check": Verb(
        "check", "keep", "brain", "find and undo changes in brain.db that are not in the log",
        "brain check --rebuild"
    ),
}  # fmt: skip


_VERBS = {
    name: row._replace(group=group, example=row.example.replace("synapse ", "brain ", 1))
    for group, names in _OURS.items()
    for name in names.split()
    for row in (_MORE.get(name) or VERBS[name],)
}


FIRST = "init register send inbox threads thread ack remember search recent".split()

_FOOT = (
    "Everywhere, before or after the verb:",
    "  --root DIR  the workspace; else $SYNAPSE_ROOT, else the log of the brain at",
    "              $SYNAPSE_BRAIN, else the one found from here up to the top of the",
    "              project; outside of projects, where it is there, that of the brain at",
    f"              {DB_PATH}",
    "  --json      print JSON, errors too",
    "  --debug     show the traceback of an error",
    "",
    "Who acts is --from, who reads is --agent; else $SYNAPSE_AGENT. `brain VERB --help`",
    "has an example each; `synapse` has all other verbs.",
    "",
)
overview = Help(
    "brain", "One brain: what agents said, and what they know.", GROUPS, _VERBS, FIRST, _FOOT
).text
PROGRAM = Program(
    "brain",
    _VERBS,
    (OPERATORS & _VERBS.keys()) | {"check"},
    overview,
    (f"{DB_PATH}.log", *DEFAULTS),
)


def main(argv: Sequence[str] | None = None, *, prog: str | None = None) -> int:
    """Run one command line, by default the process's own; the exit code. Prints every error, raises
    none.
    """
    db_path = os.environ.get("SYNAPSE_BRAIN")
    if db_path and not os.environ.get("SYNAPSE_ROOT"):
        os.environ["SYNAPSE_ROOT"] = f"{os.path.expanduser(db_path)}.log"
    return shell.main(argv, prog=prog, program=PROGRAM)


def process() -> NoReturn:
    end(main)


provenance_options, provenance = knowledge.why_options, knowledge.why


def check_options(parser: Options) -> None:
    parser.add_argument("--rebuild", action="store_true", help="first derive every row again")


def check(call: Call) -> int:
    from synapse.compat.tables import Tables, path_of

    store = call.memory.store
    path = path_of(store)
    if path is None:
        raise NotFound(
            f"{store.root} is not the log of a brain: its name would end with .log", root=store.root
        )
    tables = Tables(store, path)
    try:
        if call.args.rebuild:
            tables.rebuild()
        problems = tables.check()
    finally:
        tables.close()
    text = (
        "\n".join(one_line(f"{problem.where}: {problem.what}") for problem in problems)
        or f"{path} is what the log says"
    )
    call.show(
        lambda: {"ok": not problems, "problems": [fields(problem) for problem in problems]},
        lambda: clean(text),
    )
    return 6 if problems else 0
