"""What follows on this machine from records that another one committed: the files of agents, and a
text that is to go; and from records that a database has no more. Called under the journal's lock.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from synapse.log.accepted import Accepted
from synapse.log.begun import Begun
from synapse.log.chain import decode, is_redacted
from synapse.log.mirror import Mirror, has_place, live_path, path_of
from synapse.log.operator_files import OperatorFiles
from synapse.model.agents import agent_from
from synapse.model.namespace import is_component
from synapse.model.records import Record

_KINDS = (b'"kind":"agent"', b'"kind":"redact"')


def arrive(files: OperatorFiles, mirror: Mirror, accepted: Accepted, raws: Sequence[bytes]) -> None:
    """Do it for each of these lines. A redaction is noted as begun: whoever looks next finishes it,
    unless the text came without it.
    """
    blanked = {record.id for record in map(decode, filter(is_redacted, raws)) if record is not None}
    for raw in raws:
        record = decode(raw) if any(kind in raw for kind in _KINDS) else None
        if record is not None and record.kind == "agent":
            _declare(files, mirror, accepted, record)
        elif record is not None and record.kind == "redact":
            entry = record.fields["entry"]
            if entry in blanked:
                continue
            Begun(files.root).note(f"redact-{entry}", {"entry": entry})


def leave(mirror: Mirror, raws: Iterable[bytes]) -> None:
    """Remove the files of entries that the log has no more, where they are as they were written."""
    for record in filter(None, map(decode, raws)):
        if record.kind != "entry" or not has_place(record):
            continue
        for path in {path_of(record), live_path(record)}:
            if mirror.read(path) == (record.text or "").encode():
                mirror.remove(path)


def _declare(files: OperatorFiles, mirror: Mirror, accepted: Accepted, record: Record) -> None:
    """Have the file of an agent say what the record does. One that somebody changed here since it
    was last read stays: that is a change of its own.
    """
    from synapse.formats.declared import render_agent

    agent = agent_from(record.fields["agent"])
    path = f"agents/{agent.id}.yaml"
    if not is_component(agent.id) or not _may_replace(files, accepted, path):
        return
    if record.fields["how"] == "removed":
        mirror.remove(path)
        return
    raw = render_agent(agent).encode()
    accepted.note_file(path, raw)
    mirror.place(path, raw, replace=True)
    files.make_inbox(agent)


def _may_replace(files: OperatorFiles, accepted: Accepted, path: str) -> bool:
    if not os.path.lexists(os.path.join(files.root, path)):
        return True
    try:
        return accepted.holds_file(path, files.declared_raw(path))
    except (OSError, ValueError):
        return False
