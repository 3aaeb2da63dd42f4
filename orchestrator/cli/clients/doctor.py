"""`orchestrator doctor`: check whether coding clients are given the memory, and say what hinders
them.

`synapse doctor` checks the workspace and the machine; this verb checks the clients.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from orchestrator.cli.clients.install import NAMES
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.cli.frame.show import WIDTH, clean

if TYPE_CHECKING:
    from orchestrator.plugin.install.change import Target
    from synapse.system.findings import Finding

WRONG = 1


def doctor_options(parser: Options) -> None:
    add = parser.add_argument
    add("client", nargs="?", choices=NAMES, help="which client (default: each that is installed)")
    add("--project", metavar="DIR", help="the project (default: the one around the current folder)")
    add("--user", action="store_true", help="what is installed for all of your projects")


def doctor(call: Call) -> int:
    from orchestrator.plugin.doctor.checks import examine
    from synapse.system.findings import failed

    findings = {target.client: examine(target) for target in _targets(call)}
    data = {
        client: [finding._asdict() for finding in results] for client, results in findings.items()
    }
    call.show(lambda: {"clients": data}, lambda: clean(_format_findings(findings)))
    return WRONG if any(map(failed, findings.values())) else 0


def _targets(call: Call) -> Iterator[Target]:
    from orchestrator.plugin.install.installer import installed
    from orchestrator.plugin.install.place import place

    args = call.args
    location = place(args.client or NAMES[0], args.project, args.root, args.user, os.environ)
    names = [args.client] if args.client else sorted({client for client, _ in installed(location)})
    for name in names:
        yield place(name, args.project, args.root, args.user, os.environ).target


def _format_findings(findings: dict[str, list[Finding]]) -> str:
    if not findings:
        return (
            "No client is installed here: orchestrator install claude-code\n"
            "What is installed for all of your projects: orchestrator doctor --user"
        )
    return "\n\n".join(
        "\n".join([client, *_format_client(results)]) for client, results in findings.items()
    )


def _format_client(findings: list[Finding]) -> Iterator[str]:
    import textwrap

    for finding in findings:
        head = f"  {finding.verdict:<5}{finding.check}: "
        yield from textwrap.wrap(
            finding.detail, WIDTH, initial_indent=head, subsequent_indent=" " * 9
        )
        if finding.mend:
            yield from textwrap.wrap(
                finding.mend, WIDTH, initial_indent=" " * 7 + "→ ", subsequent_indent=" " * 9
            )
