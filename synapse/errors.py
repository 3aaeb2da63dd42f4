"""The exception tree. Every class carries the exit code of the shell; nothing here knows any other
module.

    SynapseError               exit 1   str() is the message; .details is what --json prints
    ├─ InvalidEntry            exit 64  .path .problems: malformed text or values (a ValueError)
    │   └─ PersonalData                 .kinds of it that were found, never the text
    ├─ InvalidQuery            exit 64  a search or a filter that cannot be read (a ValueError)
    ├─ NotFound                exit 3   .id (a LookupError)
    ├─ Forbidden               exit 4   .agent .namespace .action .allowed (a PermissionError)
    │   └─ NotTrusted                   .asked: what the workspace wants, and no person allowed
    ├─ Conflict                exit 5   a guard refused, a race was lost; nothing was written
    │   └─ QueueFull                    the review queue has reached its bound
    ├─ StoreError              exit 6   the disk, the journal or the index failed
    │   ├─ StoreBusy                    .pid holds the lock; try again
    │   ├─ StoreCorrupt                 says which file and what to run
    │   ├─ IndexDamaged                 .path was set aside, and is derived again; ask once more
    │   ├─ ReadOnly                     this process may not write here; reading works
    │   └─ NewerProtocol                written by a newer version of this software
    ├─ SealError               exit 7   sealed scopes
    │   └─ NoKey                        this workspace holds no keys: nothing can be sealed
    ├─ OverBudget              exit 8   .needed .budget: a view cannot be cut further
    └─ EmbedderError           exit 9   .url .folder: what makes vectors is missing, or failed
        └─ Refused                      it answered, and will not embed this text

64 is EX_USAGE of sysexits.h. No code is 2: Claude Code blocks the prompt when a hook ends with
that.
"""

from __future__ import annotations

USAGE = 64


class SynapseError(Exception):
    """Something went wrong in the memory."""

    exit_code = 1

    def __init__(self, message: str | None = None, **details: object) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())
        self.details = details

    def __getattr__(self, name: str) -> object:
        details = self.__dict__.get("details", {})
        if name in details:
            return details[name]
        raise AttributeError(name)


class InvalidEntry(SynapseError, ValueError):
    """The text or the values do not make an entry."""

    exit_code = USAGE


class PersonalData(InvalidEntry):
    """The text holds personal data: it is not stored."""


class InvalidQuery(SynapseError, ValueError):
    """The query cannot be read."""

    exit_code = USAGE


class NotFound(SynapseError, LookupError):
    """There is nothing under this id."""

    exit_code = 3


class Forbidden(SynapseError, PermissionError):
    """This agent may not do that."""

    exit_code = 4


class NotTrusted(Forbidden):
    """The workspace asks for what no person trusted it with."""


class Conflict(SynapseError):
    """A condition no longer holds; nothing was written."""

    exit_code = 5


class QueueFull(Conflict):
    """The review queue is full, or an author's hour; the error says what makes room."""


class StoreError(SynapseError):
    """The store could not be read or written."""

    exit_code = 6


class StoreBusy(StoreError):
    """Another process holds the store's lock; try again."""


class StoreCorrupt(StoreError):
    """The store is damaged; run `synapse verify`, then `synapse repair`."""


class IndexDamaged(StoreError):
    """A derived file was damaged; it is set aside and made again: ask once more."""


class ReadOnly(StoreError):
    """The workspace cannot be written by this process; reading works."""


class NewerProtocol(StoreError):
    """The workspace was written by a newer version; upgrade this software to open it."""


class SealError(SynapseError):
    """The entry cannot be sealed or opened."""

    exit_code = 7


class NoKey(SealError):
    """This workspace holds no keys, so nothing pii, private or encrypted can be stored in it."""


class OverBudget(SynapseError):
    """Even the shortest form does not fit the budget."""

    exit_code = 8


class EmbedderError(SynapseError):
    """The embedder failed; full text does not need it."""

    exit_code = 9


class Refused(EmbedderError):
    """The embedder will not embed this text: asking again is of no use."""
