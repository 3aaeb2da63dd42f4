"""`orchestrator answer`: answer what a run, a blocker or an agent asks; the tree that waits for it
goes on, here or in the process that drives it.
"""

from __future__ import annotations

import time

from orchestrator.cli.frame.asking import go_on, waiting_lines
from orchestrator.cli.frame.describe import clean_text, describe_result, source_of
from orchestrator.cli.frame.engines import open_supervisor, with_servers
from orchestrator.cli.frame.options import engine_options, read_text, tool_options
from orchestrator.reports.rows import Source, find_run
from orchestrator.runs.files.lease import CLIENT
from orchestrator.runs.files.workspace import holders, lives
from orchestrator.waiting.answers import Answer
from orchestrator.waiting.answers import answer as answered
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options

# seconds that another supervisor has to go on with what was answered
OTHERS_WITHIN = 4.0


def answer_options(parser: Options) -> None:
    parser.add_argument(
        "name", metavar="RUN|ENTRY", help="a run that waits, a blocker or a question"
    )
    parser.add_argument("text", metavar="TEXT", help="the answer; - reads standard input")
    tool_options(parser)
    engine_options(parser)


def answer(call: Call) -> int:
    args, source = call.args, source_of(call)
    reply = answered(call.memory, source, args.name, read_text(args.text))
    if not reply.run:
        call.show(reply._asdict(), f"answered {reply.entry}: {', '.join(reply.entries)}")
        return 0
    if holder := _taken(source, reply.run):
        call.show(
            {**reply._asdict(), "goes_on": holder},
            f"answered {reply.entry}: {reply.run} goes on in another process",
        )
        return 0
    return _go_on(call, reply)


def _taken(source: Source, run: str) -> str:
    """Return who goes on with a run, where another supervisor is alive and does so in time."""
    names = holders(source.store)
    end = time.monotonic() + OTHERS_WITHIN
    if not any(lives(source.store, name) for name in names if not name.startswith(CLIENT)):
        return ""
    while time.monotonic() < end:
        fields = find_run(source, run)
        if fields["state"] != "waiting":
            return str(fields.get("holder") or run)
        time.sleep(0.05)
    return ""


def _go_on(call: Call, reply: Answer) -> int:
    """Go on with the tree here, and show what came of it."""
    from orchestrator.cli.frame.live import NOT_DONE, WAITING, run_and_show

    args = call.args
    with open_supervisor(call) as supervisor:
        work = with_servers(supervisor, args.mcp, lambda: go_on(supervisor, reply.run))
        result = run_and_show(supervisor, work, quiet=args.quiet or call.json)
    call.show(
        lambda: {**reply._asdict(), "result": result.fields()}, lambda: clean_text(result.text)
    )
    if not args.quiet or not result.done:
        call.note(describe_result(result))
    if not result.waiting:
        return 0 if result.done else NOT_DONE
    if lines := waiting_lines(call, [result.run]):
        call.note("\n".join(lines))
        return WAITING
    call.note(
        f"answered; {reply.run} goes on with its own program, or with what that has:"
        f" `orchestrator resume {reply.run} --tool ... --mcp ... --engine ...`"
    )
    return NOT_DONE
