"""A shell program as values: its verbs, and the help text that lists them.

Values; imports no verb.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from synapse.system.typed import NamedTuple


class Verb(NamedTuple):
    """A verb. `code` names the module of {program}.cli with the functions `{name}` and
    `{name}_options`.
    """

    name: str
    group: str
    code: str
    summary: str
    example: str
    program: str = "synapse"

    @property
    def function(self) -> str:
        return "import_" if self.name == "import" else self.name.replace("-", "_")

    @property
    def options(self) -> str:
        return self.name.replace("-", "_") + "_options"


DEFAULTS = ("~/shared-memory",)


class Program(NamedTuple):
    """What a shell command can do: its verbs, those that a spawned run may not call, what its help
    says (with every verb, or with those of the first week), the workspaces that are meant outside
    of projects, the first that is there, and the verbs that work on a server too.
    """

    name: str
    verbs: Mapping[str, Verb]
    operators: frozenset[str]
    overview: Callable[[bool], str]
    defaults: tuple[str, ...] = DEFAULTS
    older: Mapping[str, str] = {}  # earlier names of verbs, which go on working
    remote: frozenset[str] = frozenset()
    needs: str = ""  # a package of an extra, without which no verb does its work


WHERE = (
    "  --root DIR  the workspace; else $SYNAPSE_ROOT, else the one found from here up",
    "              to the top of the project: shared-memory, or what a file .synapse",
    "              names; `synapse where` says which, and why that one",
)


class Help(NamedTuple):
    """What the help text of a program is made of. `first` are the verbs of the first week."""

    program: str
    about: str
    groups: Mapping[str, str]
    verbs: Mapping[str, Verb]
    first: Sequence[str]
    foot: Sequence[str]

    def text(self, every: bool = False) -> str:
        """Return the text of `PROGRAM --help`, or with every verb that of `--help --all`."""
        usage = f"usage: {self.program} [--root DIR] [--json] VERB ..."
        verbs = self._all() if every else self._first()
        return "\n".join([usage, "", self.about, "", *verbs, *self.foot])

    def _first(self) -> Iterator[str]:
        yield "The verbs of the first week:"
        yield from (_line(self.verbs[name]) for name in self.first)
        yield from ("", f"`{self.program} help --all` lists all {len(self.verbs)}.", "")

    def _all(self) -> Iterator[str]:
        for key, title in self.groups.items():
            found = [verb for verb in self.verbs.values() if verb.group == key]
            yield from (f"{title}:", *map(_line, found), "")


def _line(verb: Verb) -> str:
    return f"  {verb.name:<12} {verb.summary}"
