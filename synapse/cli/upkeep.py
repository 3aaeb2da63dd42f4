"""The verbs that look after the store: `verify`, `repair`, `rebuild`, `embed` and `doctor`."""

from __future__ import annotations

import os

from synapse.cli.frame.call import Call
from synapse.cli.frame.interrupt import Interruptible
from synapse.cli.frame.options import Options
from synapse.cli.frame.parse import number
from synapse.cli.frame.show import clean, one_line, to_json
from synapse.errors import NotFound, StoreCorrupt
from synapse.system.discovery import FOLDER
from synapse.system.typed import TYPE_CHECKING, Any
from synapse.wire.forms import fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from synapse.model.results import Problem, Redacted, Report
    from synapse.search.semantic import Queue


DAMAGED = StoreCorrupt.exit_code


def verify_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "--head",
        metavar="HEAD",
        help="the head that an earlier verify printed: proves that the log still contains it",
    )

    add(
        "--against",
        metavar="PATH",
        help="a file or folder of signed checkpoints to compare with (default: your own)",
    )
    add(
        "--key",
        metavar="KEY",
        help="the public key that signed them, as `synapse checkpoint --show` prints it",
    )


def verify(call: Call) -> int:
    args = call.args
    report = call.memory.verify(args.head, args.against, args.key)
    call.show(lambda: report_json(report), lambda: format_report(report, "damaged"))
    return 0 if report.ok else DAMAGED


def checkpoint_options(parser: Options) -> None:
    add = parser.add_argument
    add("--show", action="store_true", help="list the checkpoints that are kept")
    add("--forget", action="store_true", help="forget them all, and accept the journal as it is")


def checkpoint(call: Call) -> None:
    from synapse.integrity import checkpoints

    store = call.memory.store
    store.log.demand_writable()
    if store.root is None:
        raise NotFound("a workspace in memory has no checkpoints")
    if call.args.forget:
        count = checkpoints.forget(store.root)
        return call.show({"forgotten": count}, f"{count} checkpoints forgotten")
    if call.args.show:
        return _list_checkpoints(call, store.root)
    size = signed.size if (signed := checkpoints.make(store)) else None
    return call.show({"size": size}, f"signed: {size or 'no new'} records")


def _list_checkpoints(call: Call, root: str) -> None:
    from synapse.integrity import checkpoints

    rows = checkpoints.listed(root)
    key = checkpoints.own_vkey()
    lines = [f"{name} {f'{c.size} records' if c else 'not signed by you'}" for name, c in rows]
    sizes = [{"file": name, "size": c and c.size} for name, c in rows]
    call.show(
        lambda: {"checkpoints": sizes, "key": key},
        lambda: "\n".join([*lines, f"key {key}" if key else "nothing was signed yet"]),
    )


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
        help="record damaged lines as lost where nothing proves what they were, and accept those"
        " that are set aside",
    )


def repair(call: Call) -> int:
    args = call.args
    report = call.memory.repair(dry_run=args.dry_run, source=args.source, give_up=args.give_up)
    call.show(lambda: report_json(report), lambda: format_report(report, "still damaged"))
    return 0 if report.ok else DAMAGED


def redact_options(parser: Options) -> None:
    parser.add_argument("id", metavar="ID", help="the entry, or a message, fact or atom")
    parser.add_argument(
        "--reason",
        required=True,
        metavar="TEXT",
        help="why; the log keeps it, so do not repeat the text",
    )


def redact(call: Call) -> None:
    from synapse.integrity.redaction import redact as run

    done = run(call.memory.store, call.args.id, call.args.reason)
    call.show(lambda: fields(done), lambda: clean(_format_redacted(done)))


def _format_redacted(done: Redacted) -> str:
    lines = [
        f"{done.id} is redacted; the log keeps the digest of its text, who did it and why",
        *(f"  overwritten in {path}" for path in done.files),
    ]
    lists = {
        "redact these too, which repeat it": done.repeated,
        "records of the journal that repeat it and stay": done.records,
        "fields that stay, for the chain covers them": done.stays,
    }
    for title, items in lists.items():
        if items:
            lines.append(f"  {title}: {', '.join(map(str, items))}")
    lines.append(
        "  out of reach: exports, snapshots and copies elsewhere, the history of git, what models"
        " and clients were sent"
    )
    return "\n".join(lines)


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
        "--conformance", metavar="DIR", help="check a directory written by any program instead"
    )
    parser.add_argument(
        "--security",
        action="store_true",
        help="check who may write, read and be believed here instead",
    )


def doctor(call: Call) -> int:
    from synapse.cli import doctor as checks
    from synapse.system.findings import failed

    if call.args.conformance:
        findings = checks.conforming(os.path.expanduser(call.args.conformance))
    elif call.args.security:
        from synapse.cli import security

        findings = list(security.examine(call.root, call.open))
    else:
        findings = checks.examine(_workspace_or_default(call), call.open)
    call.show(lambda: checks.findings_json(findings), lambda: checks.findings_text(findings))
    return DAMAGED if failed(findings) else 0


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
    mended = [one_line(note) for note in report.notes]
    mended += [f"put back: {one_line(', '.join(report.mended))}"] if report.mended else []
    if report.ok:
        line = f"ok: {report.records} records, head {report.head}"
        return "\n".join([*mended, line, *_compared(report)])
    return "\n".join([*mended, *_format_problems(report.problems, word)])


def _compared(report: Report) -> list[str]:
    """Return what the proof of the chain is worth: who makes a journal anew makes a chain too."""
    if report.compared == 0:
        return ["compared with nothing signed: a journal that was made anew would look the same"]
    return [f"records 1 to {report.compared} are as they were signed"] if report.compared else []


def _format_problems(problems: Sequence[Problem], word: str) -> list[str]:
    if not problems:
        return []
    lines = [f"  {one_line(f'{path}: {problem}')}" for path, problem, _ in problems]
    return [f"{word}: {len(lines)} problem{'s' * (len(lines) > 1)}", *lines]


def embed_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "--limit",
        type=number,
        metavar="N",
        help="at most N entries (default: all that have no vectors)",
    )
    add("--follow", action="store_true", help="keep running and embed new entries until stopped")


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
    return f"{queue.embedded} embedded{refused}, {queue.waiting} waiting; {one_line(queue.model)}"
