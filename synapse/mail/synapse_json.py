"""The old file `synapse.json`, written from the mail: on request, or kept current while
synapse.yaml says so.

`mirror: {synapse_json: PATH, until: DATE}` has it written anew after every act on mail, by the
process that acted. It holds everybody's mail, so that it is the operator's to ask for, and its file
is its owner's alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from synapse.errors import InvalidEntry, NotFound, NotTrusted, StoreError, SynapseError
from synapse.formats import mail_json
from synapse.formats.wants import of_mirror
from synapse.mail import messages as post
from synapse.model import kinds
from synapse.model.clock import DAY, micros
from synapse.model.settings import Settings
from synapse.store import Store
from synapse.system.lock import Lock
from synapse.system.plain_files import read_file, replace_file
from synapse.system.typed import Any, NamedTuple
from synapse.trust import decisions


class Mirror(NamedTuple):
    """Where the old file is kept current, and until when (None: for good)."""

    path: str
    until: int | None


def text(store: Store, thread: str | None = None) -> str:
    """Return all mail, or that of one thread, in the format of the old file."""
    messages = post.everything(store, None if thread is None else kinds.thread_from(thread))
    if thread is not None and not messages:
        raise NotFound(f"there is no thread {thread}", id=thread)
    if thread:
        return mail_json.written(messages, None) + "\n"
    extra: dict[str, Any] = {}  # what the imported file held beside its messages
    with store.snapshot() as snap:
        acts = snap.acts(None, None, 0, None)
    for record in reversed(acts):
        if record.kind == "migrated":
            extra |= record.fields.get("rest", {})
    return mail_json.written(messages, extra) + "\n"


def mirror_of(settings: Settings, root: str | None) -> Mirror | None:
    """Return the setting `mirror` of synapse.yaml. Raises InvalidEntry if it cannot be read."""
    value: Any = dict(settings.other).get("mirror")
    if value is None:
        return None
    if not isinstance(value, Mapping) or not {"synapse_json"} <= {*value} <= {
        "synapse_json",
        "until",
    }:
        raise InvalidEntry("mirror: write {synapse_json: PATH, until: DATE}")
    path = os.path.join(root or ".", os.path.expanduser(str(value["synapse_json"])))
    until = str(value.get("until") or "")
    end = micros(until) if until else None
    return Mirror(
        os.path.abspath(path), end if end is None or len(until) > 10 else end + DAY
    )  # that day is within


def refresh(store: Store) -> bool:
    """Write the old file anew, if it is to be kept; whether it was. The act that it follows is
    durable already: where the file cannot be written the act stands, and `synapse doctor` tells of
    it.
    """
    try:
        mirror = mirror_of(store.settings, store.root)
        if mirror is None or (mirror.until is not None and store.clock() >= mirror.until):
            return False
        _demand_trust(store)
        write(store, mirror.path)
    except NotTrusted as error:
        store.index.say(f"the old file of mail is not written: {error}")
        return False
    except (OSError, SynapseError):
        return False
    return True


def _demand_trust(store: Store) -> None:
    """Raise NotTrusted where the file lies outside of a workspace that no person trusted with
    it.
    """
    if store.root is not None:
        declared = dict(store.settings.other).get("mirror")
        decisions.demand(store.root, of_mirror(declared, store.root))


def write(store: Store, path: str) -> None:
    """Put the file in place, whole. Who comes later has seen more: the text is made under the
    lock.
    """
    lock = Lock(f"{path}.lock")
    try:
        lock.run(lambda: _write_file(path, text(store).encode()))
    finally:
        lock.close()


def stale(store: Store) -> str | None:
    """Return what is wrong with the mirror file; None if nothing is."""
    try:
        mirror = mirror_of(store.settings, store.root)
        if mirror is None or (mirror.until is not None and store.clock() >= mirror.until):
            return None
        _demand_trust(store)
        kept = read_file(os.path.realpath(mirror.path)).decode()
        return None if kept == text(store) else f"{mirror.path} is not what the log says"
    except (OSError, UnicodeDecodeError, SynapseError) as error:
        return f"the mirror of synapse.yaml cannot be kept: {error}"


def _write_file(path: str, raw: bytes) -> None:
    try:
        replace_file(path, raw)
    except OSError as error:
        raise StoreError(f"{path} could not be written: {error}") from error
