"""The frame of all doctors: checks that yield findings, and what to do about each.

A check never raises here: a doctor is called for what is broken. Called by `synapse doctor` and
`orchestrator doctor`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from synapse.errors import SynapseError
from synapse.system.quoting import one_line
from synapse.system.typed import Any, NamedTuple

NAMED = 5


class Finding(NamedTuple):
    """What a check saw: `verdict` is ok, warn or fail; `mend` says how to put it right."""

    check: str
    verdict: str
    detail: str
    mend: str = ""


def run(checks: Iterable[Callable[..., Iterable[Finding]]], *subject: Any) -> Iterator[Finding]:
    """Yield what each check of the subject finds; one that fails is a finding itself."""
    for check in checks:
        try:
            yield from check(*subject)
        except (SynapseError, OSError) as error:
            yield Finding(check.__name__.strip("_"), "fail", one_line(str(error)))
        except Exception as error:
            detail = one_line(f"{check.__name__.strip('_')}: {type(error).__name__}: {error}")
            yield Finding("doctor", "fail", detail, "tell us: this is our fault")


def some(check: str, verdict: str, details: Sequence[str], advice: str) -> Iterator[Finding]:
    """Yield the first few findings in full, then the number of the others and some advice."""
    for detail in details[:NAMED]:
        yield Finding(check, verdict, detail)
    remainder = [f"{len(details) - NAMED} more"] if len(details) > NAMED else []
    if details and (remainder or advice):
        yield Finding(check, verdict, "; ".join([*remainder, *([advice] if advice else [])]))


def failed(findings: Iterable[Finding]) -> bool:
    """Return whether anything is wrong, and not only worth a warning."""
    return any(finding.verdict == "fail" for finding in findings)
