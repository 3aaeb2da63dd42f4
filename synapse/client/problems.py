"""Errors of the library from the problem documents of a server: the same class, with its details.

What is no problem document comes from something in between: its status alone is told.
"""

from __future__ import annotations

from collections.abc import Mapping

from synapse import errors
from synapse.errors import SynapseError
from synapse.system.quoting import inline
from synapse.system.typed import Any
from synapse.wire import API

# Classes that only a server has, as what of the library they are.
_OF_SERVER: dict[str, type[SynapseError]] = {
    "Unauthorized": errors.Forbidden,
    "TooMany": errors.Forbidden,
    "TooLarge": errors.InvalidEntry,
    "TooSlow": errors.StoreBusy,
}
_BY_STATUS: dict[int, type[SynapseError]] = {
    401: errors.Forbidden,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    413: errors.InvalidEntry,
    422: errors.InvalidEntry,
    429: errors.Forbidden,
}
LATER = frozenset((429, 502, 503, 504))  # what may be answered to another try
_TAKEN = frozenset(("self", "message"))  # parameters of every error
MOST = 200  # characters of a text that is quoted


def error_of(status: int, document: object, server: str) -> SynapseError:
    """Return the error that an answer tells of."""
    if not isinstance(document, Mapping) or not isinstance(document.get("error"), str):
        kind = _BY_STATUS.get(status, errors.StoreError)
        return kind(f"{server} answered with {status} and no reason", status=status)
    fields = document.get("details")
    details: Mapping[str, Any] = fields if isinstance(fields, Mapping) else {}
    name = document["error"]
    kind = _OF_SERVER.get(name) or _BY_STATUS.get(status, errors.StoreError)
    ours = getattr(errors, name, None)
    if isinstance(ours, type) and issubclass(ours, SynapseError):
        kind = ours if ours is not errors.Refused or status == 502 else kind
    return kind(
        str(document.get("detail") or ""),
        **{str(name): value for name, value in details.items() if name not in _TAKEN},
    )


def other_version(server: str, api: str) -> SynapseError | None:
    """Return the error that a server's version asks for; None where it is one that is known here,
    or a later one that has only more.
    """
    if not api or api.partition(".")[0] == API.partition(".")[0]:
        return None
    return errors.StoreError(
        f"{server} speaks version {inline(api)[:20]} of the memory's HTTP, and this software"
        f" {API}: the older of the two has to be updated",
        api=inline(api)[:20],
    )


def redirected(server: str, to: str) -> SynapseError:
    target = inline(to)[:MOST]
    return errors.StoreError(
        f"{server} sends its callers on to {target}: a token goes to the server that was"
        " named and to no other; name that one if it is meant"
    )
