"""A shell program as values: its verbs, and the help text that lists them.

Values; imports no verb.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

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
    says, the workspaces that are meant outside of projects, the first that is there, and the verbs
    that work on a server too.
    """

    name: str
    verbs: Mapping[str, Verb]
    operators: frozenset[str]
    overview: Callable[[], str]
    defaults: tuple[str, ...] = DEFAULTS
    older: Mapping[str, str] = {}  # earlier names of verbs, which go on working
    remote: frozenset[str] = frozenset()


WHERE = (
    "  --root DIR  the workspace; else $SYNAPSE_ROOT, else the one found from here up",
    "              to the top of the project: shared-memory, or what a file .synapse",
    "              names; `synapse where` says which, and why that one",
)


def format_verbs(groups: Mapping[str, str], table: Iterable[Verb]) -> list[str]:
    """Return the lines of a help text that list the verbs, by group."""
    lines: list[str] = []
    for key, title in groups.items():
        lines.append(f"{title}:")
        lines += [
            f"  {verb.name:<12} {verb.summary}" for verb in table if verb.group == key
        ]
        lines.append("")
    return lines
