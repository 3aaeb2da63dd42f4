"""The person's decisions of what a workspace may do beyond itself. Whoever is about to do it for a
workspace asks here first.

A decision lies in the person's own folder, under the real path of the workspace: a copy, or one
that was moved, is another workspace. It holds the lines that were trusted. What asks for nothing
that `formats.wants` lists never comes here, and reading and writing entries does not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from synapse.errors import EmbedderError, InvalidEntry, NotTrusted
from synapse.formats import wants
from synapse.formats.wants import Want
from synapse.model.settings import Semantic, Settings
from synapse.system import addresses, home, plain_files
from synapse.system.digest import sha256
from synapse.system.typed import Any, NamedTuple
from synapse.trust.persons import persons_alone

LONGEST = 1 << 16  # bytes of team.yaml


class Decision(NamedTuple):
    """What a person trusted a workspace with, and when. `kinds` has for the lines with an address
    which kind of place that was.
    """

    root: str
    date: str
    lines: tuple[str, ...]
    kinds: dict[str, str]

    @property
    def digest(self) -> str:
        return sha256("\n".join(sorted(self.lines)).encode())


def asked(settings: Settings, root: str) -> list[Want]:
    """Return all that the files of a workspace ask for, in their order."""
    return [*wants.of_settings(settings, root), *wants.of_team(_team(root))]


def demand_embedder(root: str | None, chosen: Semantic) -> str:
    """Return the kind of place that texts may be sent to; EmbedderError where a person did not
    trust the workspace with it.
    """
    try:
        return demand(root, wants.of_semantic(chosen))
    except NotTrusted as error:
        raise EmbedderError(str(error), **error.details) from error


def demand(root: str | None, want: Want | None) -> str:
    """Return if a person trusts the workspace with this, else raise NotTrusted. Return the kind of
    place that its address was trusted as, empty where it has none. A workspace in memory is its
    program's own.
    """
    if want is None or root is None:
        return ""
    if want.never:
        raise NotTrusted(f"{want.file}: {want.key}: {want.never}", asked=want.line)
    if want.url:
        addresses.place_of(want.url)
    decided = decision(root)
    if decided is None or want.line not in decided.lines:
        raise NotTrusted(
            f"the workspace asks for what nobody trusted it with yet: {want.line};"
            " `synapse trust --show` lists all that it asks for, `synapse trust` trusts it",
            asked=want.line,
            root=root,
        )
    return decided.kinds.get(want.line, addresses.PUBLIC) if want.url else ""


def open_wants(root: str, found: Iterable[Want]) -> list[Want]:
    """Return those of the wants that are not trusted."""
    decided = decision(root)
    lines = decided.lines if decided else ()
    return [want for want in found if want.never or want.line not in lines]


def trust(root: str, found: Iterable[Want], date: str) -> Decision:
    """Trust a workspace with just these, instead of what was trusted before. What cannot be
    trusted is left out.
    """
    persons_alone("trust a workspace")
    lines, kinds = [], {}
    for want in found:
        kind = place_kind(want)
        if want.never or kind in (addresses.NEVER, addresses.MIXED):
            continue
        lines.append(want.line)
        if kind:
            kinds[want.line] = kind
    decided = Decision(os.path.realpath(root), date, tuple(lines), kinds)
    fields = decided._asdict() | {"digest": decided.digest}
    home.write(_name(root), (json.dumps(fields, indent=1) + "\n").encode())
    return decided


def revoke(root: str) -> bool:
    """Take back all trust in a workspace; return whether there was any."""
    persons_alone("take trust back")
    return home.remove(_name(root))


def decision(root: str) -> Decision | None:
    """Return what was decided about a workspace at this place; None where nothing was, or where
    its file is not whole.
    """
    raw = home.read(_name(root))
    if raw is None:
        return None
    try:
        fields: Any = json.loads(raw)
        digest = fields.pop("digest")
        decided = Decision(**{**fields, "lines": tuple(fields["lines"])})
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    matches = decided.digest == digest and decided.root == os.path.realpath(root)
    return decided if matches else None


def place_kind(want: Want) -> str:
    """Return which kind of place a want's address is now; empty where it has none."""
    if not want.url:
        return ""
    try:
        origin = addresses.place_of(want.url)
    except InvalidEntry:
        return addresses.NEVER
    return addresses.kind_found(origin.host, origin.port)


def _name(root: str) -> str:
    return f"trust/{sha256(os.fsencode(os.path.realpath(root)))[:32]}.json"


def _team(root: str) -> str:
    """Return the text of team.yaml; empty where there is none that can be read."""
    try:
        path = os.path.join(root, wants.TEAM_FILE)
        return plain_files.read_file(path, LONGEST).decode()
    except (OSError, UnicodeDecodeError):
        return ""
