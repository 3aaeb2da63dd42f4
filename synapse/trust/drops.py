"""The admission of files that people and agents drop into the tree beside the journal. Decides who
a file is from and what it may do; `Store` hands the files over as the log meets them.
"""

from __future__ import annotations

from collections.abc import Callable

from synapse.authority import admit, check_when, may_replace, passed_on
from synapse.errors import Forbidden, InvalidEntry, NoKey, NotFound, QueueFull
from synapse.index.index import Index
from synapse.log.adopt import Channel
from synapse.model.agents import OPERATOR, Agent
from synapse.model.entry import SEALED, Draft, Entry
from synapse.model.records import Guard
from synapse.model.settings import Settings
from synapse.privacy.records import holds_secret
from synapse.trust import lineage

# who writes a plan.md that names nobody
PLANNER = Agent(OPERATOR, "project-lead", authority=80, write=("projects/*",))


class Drops:
    """The rules for dropped files, under the settings of the moment."""

    def __init__(
        self,
        index: Index,
        settings: Settings,
        room: Guard,
        clock: Callable[[], int],
        standing: Callable[[Agent], Agent],
        limited: Callable[[Entry], Entry],
    ) -> None:
        self.index = index
        self.settings = settings
        self.room = room  # holds where one more entry may wait for review
        self.clock = clock
        self.standing = standing  # an agent with what its reputation moved
        self.limited = limited  # an entry as its author's hour lets it in

    def admit(self, draft: Draft, channel: Channel) -> Entry:
        """Admit a dropped file. Who it is from is decided by how it came, never by what it says."""
        check_when(draft)
        demand_envelope(draft)
        if channel.inbox is not None:
            return self._from_inbox(draft, channel, channel.inbox)
        mapped = self._mapped(channel.uid)
        if not draft.author:
            if mapped is None and not channel.owner:
                raise InvalidEntry(
                    "from is missing: write who it is from, in a block of `key:"
                    " value` lines between `---`"
                )
            draft = draft._replace(author=mapped or OPERATOR)
            if mapped is None:
                return admit(draft, PLANNER, self.settings)
        if mapped is not None and draft.author != mapped:
            raise Forbidden(
                f"it says from: {draft.author}, but its owner is {mapped}",
                agent=mapped,
                action="write as",
            )
        if channel.owner or mapped is not None:
            return self._admitted(draft, self.index.current.declared.get(draft.author))
        return admit(draft, None, self.settings, trust="unverified")

    def _from_inbox(self, draft: Draft, channel: Channel, inbox: str) -> Entry:
        agent = self.index.current.declared.get(inbox)
        if agent is None:
            raise NotFound(f"there is no agent {inbox}, so its inbox is nobody's", id=inbox)
        if not channel.owner and self._mapped(channel.uid) != inbox:
            raise Forbidden(
                f"its owner (user {channel.uid}) is not {inbox}",
                agent=inbox,
                action="use the inbox of",
            )
        if draft.author not in ("", inbox):
            raise Forbidden(
                f"it says from: {draft.author}, but came through the inbox of {inbox}", agent=inbox
            )
        return self._admitted(draft._replace(author=inbox), agent)

    def _admitted(self, draft: Draft, agent: Agent | None) -> Entry:
        """Return a draft of an agent's own, with the rights that it has as that agent."""
        now = self.clock()
        sources = [self.index.current.entry(id, now) for id in draft.derived_from]
        trust = passed_on(("local", *(source.trust for source in sources if source)))
        if lineage.limits(self.settings) and self._has_read_unverified(draft, now):
            trust = "unverified"
        entry = admit(draft, agent and self.standing(agent), self.settings, trust=trust)
        keys = self.index.current.names.keys
        if keys is not None and draft.author in keys and trust != "unverified":
            if not self._signed(entry):
                return admit(draft, None, self.settings, trust="unverified")
            if trust == "local" and not draft.derived_from:
                entry = entry._replace(trust="keyed")
        for id in entry.replaces:
            old = self.index.current.entry(id, now)
            if agent is not None and old is not None:
                may_replace(agent, old, entry)
        if entry.staged and not self.room.holds(self.index.keyed("staging")):
            raise QueueFull("too many entries wait for review; this one waits outside")
        return entry if agent is None else self.limited(entry)

    def _has_read_unverified(self, draft: Draft, now: int) -> bool:
        """Return whether the author or a cited run has read unverified entries."""
        index, runs = self.index.current, draft.more.get("cites") or ()
        return bool(lineage.doubts_of_agent(index, draft.author, now)) or any(
            lineage.doubts(index, run, now) for run in runs
        )

    def _signed(self, entry: Entry) -> bool:
        """Return whether the current key of its author signed it, as it is stored, and no entry
        of the log is a copy of it.
        """
        from synapse.trust.keyring import proves, signed_key

        keys = self.index.current.names.keys
        copied = self.index.keyed(signed_key(entry))
        proven = keys is not None and proves(keys, entry) and not copied
        return proven and not holds_secret(entry)

    def _mapped(self, uid: int) -> str | None:
        """Return the agent that a user of this machine is."""
        if (
            not any(agent.user for agent in self.index.current.declared.values())
            and not self.settings.users
        ):
            return None
        import pwd

        try:
            names = {str(uid), pwd.getpwuid(uid).pw_name}
        except KeyError:
            names = {str(uid)}
        declared = ((agent.user or "", agent.id) for agent in self.index.current.declared.values())
        return next((id for user, id in (*declared, *self.settings.users) if user in names), None)


def demand_envelope(draft: Draft) -> None:
    """Refuse a drop of a sealed scope that is plain text: nobody else may seal it."""
    if draft.scope not in SEALED:
        return
    from synapse.crypto import is_envelope

    if not is_envelope(draft.body):
        raise NoKey(
            f"scope: {draft.scope} needs a key to seal it, and this is plain text: write it"
            " with `synapse write --scope`, and delete this file"
        )
