"""`synapse verify | repair | rebuild | doctor`."""

from __future__ import annotations

import os

from synapse.cli.call import Call
from synapse.cli.options import Options
from synapse.cli.show import clean, fields
from synapse.errors import NotFound, StoreCorrupt
from synapse.system.discovery import FOLDER
from synapse.system.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from synapse.model.results import Problem, Report

DAMAGED = StoreCorrupt.exit_code


def verify_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "--head",
        metavar="HEAD",
        help="what an earlier verify ended with: proves that no end was cut off",
    )


def verify(call: Call) -> int:
    report = call.memory.verify(call.args.head)
    call.show(lambda: report_json(report), lambda: reported(report, "damaged"))
    return 0 if report.ok else DAMAGED


def repair_options(parser: Options) -> None:
    """None of its own."""


def repair(call: Call) -> int:
    report = call.memory.repair()
    call.show(lambda: report_json(report), lambda: reported(report, "still damaged"))
    return 0 if report.ok else DAMAGED


def rebuild_options(parser: Options) -> None:
    """None of its own."""


def rebuild(call: Call) -> int:
    done = call.memory.rebuild()
    shown = f"{done.records} records indexed, digest {done.digest}"
    call.show(
        lambda: fields(done),
        lambda: "\n".join([shown, *_listed(done.problems, "damaged")]),
    )
    return DAMAGED if done.problems else 0


def doctor_options(parser: Options) -> None:
    parser.add_argument(
        "--conformance",
        metavar="DIR",
        help="instead check a directory that anything wrote",
    )


def doctor(call: Call) -> int:
    from synapse.cli import doctor as checks

    if call.args.conformance:
        findings = checks.conforming(os.path.expanduser(call.args.conformance))
    else:
        findings = checks.examine(_root(call), call.open)
    call.show(
        lambda: checks.findings_json(findings), lambda: checks.findings_text(findings)
    )
    return DAMAGED if any(finding.verdict == "fail" for finding in findings) else 0


def _root(call: Call) -> str:
    """Return the workspace, or where one would be: a doctor is called for what is not found,
    too.
    """
    try:
        return call.root
    except NotFound:
        return FOLDER


def report_json(report: Report) -> dict[str, Any]:
    return {"ok": report.ok, **fields(report)}


def reported(report: Report, word: str) -> str:
    """One line if all is well; else every problem, the first one first."""
    mended = [f"put back: {clean(', '.join(report.mended))}"] if report.mended else []
    if report.ok:
        return "\n".join([*mended, f"ok: {report.records} records, head {report.head}"])
    return "\n".join([*mended, *_listed(report.problems, word)])


def _listed(problems: Sequence[Problem], word: str) -> list[str]:
    if not problems:
        return []
    lines = [f"  {clean(f'{where}: {what}')}" for where, what, _ in problems]
    return [f"{word}: {len(lines)} problem{'s' * (len(lines) > 1)}", *lines]
