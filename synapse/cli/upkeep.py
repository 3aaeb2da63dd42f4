"""The verbs that look after the store: `verify`, `repair`, `rebuild`, `embed` and `doctor`."""

from __future__ import annotations

import os

from synapse.cli.frame.call import Call
from synapse.cli.frame.interrupt import Interruptible
from synapse.cli.frame.options import Options
from synapse.cli.frame.parse import number
from synapse.cli.frame.show import clean, fields, to_json
from synapse.errors import NotFound, StoreCorrupt
from synapse.system.discovery import FOLDER
from synapse.system.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from synapse.model.results import Problem, Report
    from synapse.search.semantic import Queue


DAMAGED = StoreCorrupt.exit_code


def verify_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "--head",
        metavar="HEAD",
        help="the head that an earlier verify printed: proves that the log still contains it",
    )


def verify(call: Call) -> int:
    report = call.memory.verify(call.args.head)
    call.show(lambda: report_json(report), lambda: format_report(report, "damaged"))
    return 0 if report.ok else DAMAGED


def repair_options(parser: Options) -> None:
    add = parser.add_argument
    add("--dry-run", action="store_true", help="only say what would be done")
    add(
        "--from",
        dest="source",
        metavar="COPY",
        help="another workspace, a snapshot or an export that has the damaged lines",
    )
    add(
        "--give-up",
        action="store_true",
        help="record damaged lines as lost where nothing proves what they were",
    )


def repair(call: Call) -> int:
    args = call.args
    report = call.memory.repair(
        dry_run=args.dry_run, source=args.source, give_up=args.give_up
    )
    call.show(
        lambda: report_json(report), lambda: format_report(report, "still damaged")
    )
    return 0 if report.ok else DAMAGED


def rebuild_options(parser: Options) -> None:
    """Declare no options."""


def rebuild(call: Call) -> int:
    done = call.memory.rebuild()
    summary = f"{done.records} records indexed, digest {done.digest}"
    call.show(
        lambda: fields(done),
        lambda: "\n".join([summary, *_format_problems(done.problems, "damaged")]),
    )
    return DAMAGED if done.problems else 0


def doctor_options(parser: Options) -> None:
    parser.add_argument(
        "--conformance",
        metavar="DIR",
        help="check a directory written by any program instead",
    )


def doctor(call: Call) -> int:
    from synapse.cli import doctor as checks

    if call.args.conformance:
        findings = checks.conforming(os.path.expanduser(call.args.conformance))
    else:
        findings = checks.examine(_workspace_or_default(call), call.open)
    call.show(
        lambda: checks.findings_json(findings), lambda: checks.findings_text(findings)
    )
    return DAMAGED if any(finding.verdict == "fail" for finding in findings) else 0


def _workspace_or_default(call: Call) -> str:
    """Return the workspace, or where one would be: a doctor is called for what is not found,
    too.
    """
    try:
        return call.root
    except NotFound:
        return FOLDER


def report_json(report: Report) -> dict[str, Any]:
    return {"ok": report.ok, **fields(report)}


def format_report(report: Report, word: str) -> str:
    """Return one line if all is well, else every problem in order."""
    mended = [clean(note) for note in report.notes]
    mended += [f"put back: {clean(', '.join(report.mended))}"] if report.mended else []
    if report.ok:
        return "\n".join([*mended, f"ok: {report.records} records, head {report.head}"])
    return "\n".join([*mended, *_format_problems(report.problems, word)])


def _format_problems(problems: Sequence[Problem], word: str) -> list[str]:
    if not problems:
        return []
    lines = [f"  {clean(f'{path}: {problem}')}" for path, problem, _ in problems]
    return [f"{word}: {len(lines)} problem{'s' * (len(lines) > 1)}", *lines]


def embed_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "--limit",
        type=number,
        metavar="N",
        help="at most N entries (default: all that have no vectors)",
    )
    add(
        "--follow",
        action="store_true",
        help="keep running and embed new entries until stopped",
    )


def embed(call: Call) -> None:
    from synapse.search import semantic

    store = call.memory.store
    if not call.args.follow:
        queue = semantic.embed(store, call.args.limit)
        call.show(lambda: fields(queue), queue_line(queue))
        return
    with Interruptible():
        for queue in semantic.follow(store):
            call.say(to_json(fields(queue)) if call.json else queue_line(queue))
            call.flush()


def queue_line(queue: Queue) -> str:
    refused = f", {queue.refused} refused" if queue.refused else ""
    return f"{queue.embedded} embedded{refused}, {queue.waiting} waiting; {clean(queue.model)}"
