"""What a pending record puts on the next line of a log. Pure: id and time are decided by the
log.
"""

from __future__ import annotations

from synapse.model import clock
from synapse.model.agents import Agent
from synapse.model.entry import is_id
from synapse.model.records import Pending, fields_of
from synapse.system.digest import sha256
from synapse.system.typed import Any, NamedTuple


class Line(NamedTuple):
    """The content of a line; the log adds its place, its time and its proof."""

    kind: str
    by: str
    fields: dict[str, Any]
    id: str | None = None
    text: str | None = None
    path: str | None = None
    once: str | None = None
    key: str | None = None
    n: int | None = None


def prepare(pending: Pending) -> None:
    """Load what the line will need. Under the log's lock everybody else would wait for a writer's
    first import.
    """
    sha256()
    if pending.entry is not None:
        from synapse.formats import codec as codec


def act_line(pending: Pending, once: str | None) -> Line:
    return Line(
        pending.kind, pending.by, dict(pending.fields), once=once, key=pending.key
    )


def entry_line(
    pending: Pending, at: int, id: str, n: int, once: str | None, alias_free: bool
) -> Line:
    """An entry under its id: rendered, unless it came as a text of its own, which is then kept as
    it is.
    """
    from synapse.formats import codec

    assert pending.entry is not None
    wanted = pending.fields.get("alias")
    alias = wanted if alias_free and wanted and wanted != id and is_id(wanted) else None
    entry = pending.entry._replace(
        id=id, timestamp=pending.entry.timestamp or clock.seconds(at), alias=alias
    )
    text = codec.render(entry) if pending.text is None else pending.text
    fields = fields_of(entry) | {
        name: value for name, value in pending.fields.items() if name != "alias"
    }
    if pending.text is None:
        fields["start"] = len(text) - len(entry.body) - 1
    return Line(
        pending.kind, pending.by, fields, id, text, pending.path, once, pending.key, n
    )


def agent_pending(
    agent: Agent,
    by: str,
    was: Agent | None,
    how: str = "registered",
    sha: str | None = None,
) -> Pending:
    """The declaration of an agent, with what it was before, and the digest of the file that
    declares it.
    """
    fields = {"agent": _declared(agent), "how": how} | (
        {"was": _declared(was)} if was else {}
    )
    return Pending("agent", by, fields | ({"sha": sha} if sha else {}))


def _declared(agent: Agent) -> dict[str, Any]:
    fields = agent._asdict()
    del fields["shift"]
    return fields
