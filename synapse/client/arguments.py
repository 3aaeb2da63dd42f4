"""Arguments as a request has them: times and names in a query, ids in a path, keys of `once`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from synapse.errors import InvalidEntry, InvalidQuery
from synapse.model.clock import micros
from synapse.model.dates import When
from synapse.system.typed import Any

Names = str | Iterable[str] | None
LONGEST_KEY = 200  # characters


def query(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a question that say something."""
    return {
        name: "true" if value is True else value
        for name, value in params.items()
        if value is not None and value is not False and value != ()
    }


def checked_key(once: str) -> str:
    if not once:
        raise InvalidEntry(
            "the key of `once` is empty: every act under it would be taken for the first"
        )
    if not once.isascii() or not once.isprintable() or once != once.strip():
        raise InvalidEntry("over HTTP the key of `once` is of printable ASCII characters")
    if len(once) > LONGEST_KEY:
        raise InvalidEntry(f"the key of `once` has more than {LONGEST_KEY} characters")
    return once


def path(*parts: str) -> str:
    """Return a path below `/v1`. What stands in names is escaped, dots too: `..` is no way up."""
    from urllib.parse import quote

    escaped = (quote(part, safe="").replace(".", "%2E") for part in parts)
    return "/".join(("/v1", *escaped))


def moment(when: When) -> str | None:
    """Return a time as it stands in a query: a phrase as it is, what is no phrase as
    microseconds."""
    if when is None or isinstance(when, str):
        return when
    if isinstance(when, int):
        return f"{when:012d}"
    try:
        return f"{micros(when.isoformat()):012d}"
    except (AttributeError, InvalidEntry):
        raise InvalidQuery(f"{when!r} is no time", when=str(when)) from None


def several(values: Names) -> list[str] | None:
    """Return a filter of one or several names as a query has it: one text is one value."""
    if values is None or isinstance(values, str):
        return [values] if values else None
    return list(values) or None
