"""Globs of namespaces as conditions of SQL on the column `name`: of each namespace they say exactly
what `matches` says.
"""

from __future__ import annotations

from collections.abc import Iterable

from synapse.model import namespace as ns

EVERY = "1"
NONE = "0"


def covering(globs: Iterable[str]) -> str:
    """Return the condition that one of the globs covers a namespace. What is no glob covers
    nothing.
    """
    conditions = dict.fromkeys(map(_condition, globs))
    return EVERY if EVERY in conditions else " or ".join(conditions) or NONE


def _condition(glob: str) -> str:
    if glob == "*":
        return EVERY
    if not ns.is_glob(glob):
        return NONE
    segments = glob.split("/")
    subtree = segments[-1] == "*"
    fixed = segments[:-1] if subtree else segments
    path = "/".join(fixed)
    if "*" not in fixed:
        inner = f" or name >= '{path}/' and name < '{path}0'"  # 0 comes next to /
        return f"name = '{path}'{inner if subtree else ''}"
    # Where a name has as many slashes as the pattern, no star of the pattern holds one.
    levels = range(len(fixed), ns.MAX_LEVELS + 1) if subtree else [len(fixed)]
    patterns = (path + "/*" * (level - len(fixed)) for level in levels)
    return " or ".join(
        f"name glob '{pattern}' and length(replace(name, '/', '')) + {count} = length(name)"
        for pattern in patterns
        for count in [pattern.count("/")]
    )
