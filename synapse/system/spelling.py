"""Suggestions for misspelt names: what somebody may have meant by a name that is not there. Pure.

Keys of the operator's files, roles, agents and engines are looked up here before an error names
them. Loads difflib only when it is asked.
"""

from __future__ import annotations

from collections.abc import Iterable

ALIKE = 0.66  # of difflib's ratio: `dri` is like `dir`, `cto` is not like `qa`


def closest(name: str, names: Iterable[str]) -> str | None:
    """Return the one of these names that was most likely meant, or None."""
    folded = {_folded(original): original for original in names}
    folded_name = _folded(name)
    if folded_name in folded:
        return folded[folded_name]
    partly = [original for key, original in folded.items() if folded_name in key.split("-")]
    if len(partly) == 1:
        return partly[0]
    if not folded:
        return None
    from difflib import get_close_matches

    close = get_close_matches(folded_name, folded, 1, ALIKE)
    return folded[close[0]] if close else None


def hint(name: str, names: Iterable[str], otherwise: str = "") -> str:
    """Return `did you mean X?`, or what else there is to say where no name is close."""
    close = closest(name, names)
    return f"did you mean {close}?" if close else otherwise


def _folded(name: str) -> str:
    return name.strip().lower().replace("_", "-").replace(" ", "-")
