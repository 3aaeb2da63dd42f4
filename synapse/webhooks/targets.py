"""The webhooks that synapse.yaml declares: where each sends, which entries, and with whose rights.

Values, and the decision of what may leave. Nothing is opened or resolved here.
"""

from __future__ import annotations

from collections.abc import Mapping

from synapse.authority import visible
from synapse.errors import InvalidEntry, SynapseError
from synapse.formats.fields import FieldReader
from synapse.formats.wants import Want, bad_secret, of_webhook
from synapse.model import namespace as ns
from synapse.model.agents import OPERATOR, RESERVED, Agent
from synapse.model.entry import PRIORITIES, SEALED, Entry
from synapse.model.settings import Settings
from synapse.system.addresses import place_of
from synapse.system.typed import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from synapse.store import Store

BLOCK = "webhooks"
KEYS = ("url", "secret", "as", "namespaces", "priorities", "agents")
# A reader of what is written to all, and not in the place of one agent or group.
PUBLIC = Agent("", read=("*",))
PERSON = Agent(OPERATOR, read=("*",))  # what is for all, and what is asked of the operator
OWN_PLACES = ("agents/*", "groups/*")


class Target(NamedTuple):
    """One webhook. `reader` is the agent whose rights it has, empty for what is public; `want`
    is what a person has to trust.
    """

    name: str
    url: str
    secrets: tuple[str, ...]
    want: Want
    reader: str = ""
    namespaces: tuple[str, ...] = ()
    priorities: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()

    def takes(self, entry: Entry) -> bool:
        """Return whether an entry is one of those that the webhook is for."""
        return (
            (not self.priorities or entry.priority in self.priorities)
            and (not self.authors or entry.author in self.authors)
            and (not self.namespaces or ns.matches_any(self.namespaces, entry.namespace))
        )


def may_leave(entry: Entry, reader: Agent) -> bool:
    """Return whether an entry may be sent with the rights of this reader. What is sealed or waits
    for review never is.
    """
    if entry.scope in SEALED or entry.staged or not visible(entry, reader):
        return False
    if reader is not PUBLIC:
        return True
    return entry.scope == "public" and not ns.matches_any(OWN_PLACES, entry.namespace)


def is_configured(store: Store) -> bool:
    """Return whether a workspace declares webhooks, so that somebody has to send."""
    return store.root is not None and BLOCK in dict(store.settings.other)


def declared(settings: Settings, root: str) -> tuple[list[Target], dict[str, str]]:
    """Return the webhooks of a workspace in their order, and by name what is wrong with those that
    cannot be.
    """
    block: Any = dict(settings.other).get(BLOCK)
    if block is None:
        return [], {}
    if not isinstance(block, Mapping):
        return [], {BLOCK: "write a block of `name: {url: ..., secret: ...}` lines"}
    targets, problems = [], {}
    for name, fields in block.items():
        try:
            targets.append(_target(str(name), fields, root))
        except SynapseError as error:
            problems[str(name)] = str(error)
    return targets, problems


def _target(name: str, fields: Any, root: str) -> Target:
    reader = FieldReader(fields, "", f"{BLOCK}.{name}: ")
    target = Target(
        name,
        reader.text("url") or "",
        reader.many("secret") or (),
        of_webhook(name, fields, root) or Want("", "", "", ""),
        reader.text("as") or "",
        reader.many("namespaces") or (),
        reader.many("priorities") or (),
        reader.many("agents") or (),
    )
    reader.problems += [f"{reader.prefix}{text}" for text in _problems(target, root)]
    for glob in target.namespaces:
        ns.check_glob(glob)
    reader.finish()
    return target


def _problems(target: Target, root: str) -> list[str]:
    problems = []
    if not ns.is_component(target.name):
        problems.append("its name has other characters than a-z, 0-9, _ and -")
    try:
        place_of(target.url)
    except InvalidEntry as error:
        problems.append(str(error))
    if not 1 <= len(target.secrets) <= 2:
        problems.append("secret is missing, or they are more than two")
    elif bad := bad_secret(list(target.secrets), root):
        problems.append(bad)
    if target.reader in RESERVED - {OPERATOR}:
        problems.append(f"as: {target.reader} is no agent that is registered")
    for priority in target.priorities:
        if priority not in PRIORITIES:
            problems.append(f"priorities: {priority} is not one of {', '.join(PRIORITIES)}")
    return problems
