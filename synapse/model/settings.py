"""The settings of a workspace: the keys of synapse.yaml as values. Pure.

What a value may be is checked here; the file itself is read in `formats.declared`.
"""

from __future__ import annotations

from synapse.errors import InvalidEntry
from synapse.model import namespace as ns
from synapse.model.entry import parse_ttl
from synapse.system.typed import NamedTuple

PROTOCOL = 2  # the newest that is known here
# what a workspace begins with: no record in it needs a feature that came later
FIRST = 1
REPUTATION = ("report", "on", "off")
PERSONAL = ("mask", "refuse", "off")
SIZES = {
    "per_namespace": "500KB",
    "total_shared": "5MB",
    "per_entry": "64KB",
    "archive_retention": "off",
}
# What one author may write in an hour: `bytes` of text.
HOURLY = {"criticals": "1000", "entries": "100000", "bytes": "1GB"}
_UNITS = {
    "": 1,
    "B": 1,
    "KB": 1_000,
    "MB": 1_000_000,
    "GB": 10**9,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
}
LOCAL, OFF = "local", "off"
EMBEDDERS = (LOCAL, "ollama", "openai", OFF)


class Semantic(NamedTuple):
    """Which embedder makes vectors, and whether searches use them by default. Where none is named
    it is the local one, if that is installed. `key` is the name of the environment variable that
    holds a server's key."""

    embedder: str = ""
    model: str | None = None
    url: str | None = None
    key: str | None = None
    search: bool = True


class Settings(NamedTuple):
    """The keys of synapse.yaml as values; unknown keys are kept for whoever knows them."""

    protocol: int = FIRST
    name: str = "shared-memory"
    ttl: tuple[tuple[str, str], ...] = ()
    flat: bool = False
    staging_ttl: str = "7d"
    staging_limit: int = 100
    users: tuple[tuple[str, str], ...] = ()
    sizes: tuple[tuple[str, str], ...] = ()
    quota: tuple[tuple[str, str], ...] = ()
    hourly: tuple[tuple[str, str], ...] = ()
    global_write: int = 80
    semantic: Semantic = Semantic()
    reputation: str = "report"
    other: tuple[tuple[str, object], ...] = ()

    @property
    def declared(self) -> tuple[str, ...]:
        """Return the namespaces that a plain list names, if there is one."""
        namespaces = dict(self.other).get("namespaces")
        return tuple(str(glob) for glob in namespaces) if isinstance(namespaces, list) else ()

    @property
    def personal(self) -> str:
        """Return what is done with personal data in a text that is not marked as such: one of
        PERSONAL, `refuse` where another word stands there.
        """
        if not self.other or "personal" not in (privacy := self._privacy()):
            return PERSONAL[0]
        word = "off" if privacy["personal"] is False else privacy["personal"]
        return str(word) if word in PERSONAL else "refuse"

    @property
    def patterns(self) -> dict[str, str]:
        """Return the globs of personal data of the workspace's own, by what they find."""
        if not self.other:
            return {}
        patterns = self._privacy().get("patterns")
        items = patterns.items() if isinstance(patterns, dict) else ()
        return {str(name): str(glob) for name, glob in items if 4 <= len(str(glob)) <= 80}

    def _privacy(self) -> dict[str, object]:
        privacy = dict(self.other).get("privacy")
        return privacy if isinstance(privacy, dict) else {}

    def size(self, name: str) -> int | None:
        """Return how many bytes `size_limits` allow to one of the names in SIZES; None is no
        limit."""
        return parse_size(dict(self.sizes).get(name, SIZES[name]))

    def hourly_limit(self, name: str) -> int | None:
        """Return how much one author may write in an hour, by a name in HOURLY; None is no
        limit."""
        return parse_size(dict(self.hourly).get(name, HOURLY[name]))

    def daily(self, agent: str) -> int | None:
        """Return how many entries a day an agent should not exceed; None is no limit."""
        quotas = dict(self.quota)
        text = quotas.get(agent, quotas.get("default", "off"))
        return int(text) if text.isdigit() else None


def settled_settings(settings: Settings) -> Settings:
    for glob, ttl in settings.ttl:
        ns.check_glob(glob)
        parse_ttl(ttl)
    parse_ttl(settings.staging_ttl)
    if not 0 <= settings.global_write <= 101:
        raise InvalidEntry(
            f"global_write {settings.global_write} is not between 0 and 100, or 101 for nobody"
        )
    return settings


def parse_size(text: str) -> int | None:
    """Return the bytes of a size such as `500KB`, `5 MB`, `64KiB` or a plain number; None is no
    limit (`off`)."""
    normalized = text.strip().upper()
    if normalized in ("OFF", "NONE", "NEVER"):
        return None
    number = normalized.rstrip("KMGIB ")
    unit = normalized[len(number) :].strip()
    if not number.isascii() or not number.isdigit() or len(number) > 12 or unit not in _UNITS:
        raise InvalidEntry(
            f"size {text!r} is not valid: write a number and KB or MB, or off", size=text
        )
    return int(number) * _UNITS[unit]
