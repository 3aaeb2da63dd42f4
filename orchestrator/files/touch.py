"""A call, or a prompt, as far as it has to do with files: which ones it names, what it changes in
them, and which names of code it uses. Pure; `changes` looks at the files themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from orchestrator.files.diff import is_compound, names_in
from synapse.system.pattern import later

LONGEST = 10_000  # characters of a command that are looked at
NAMED = 12  # words of a command that are looked up as files
GREP = later(r"\s*(?:git\s+grep|[efz]?grep|rg|ag|ack)\b")
_WORD = later(r"[\w@+~./-]+")
_SHOWN = later(r"(?:^|(?<=\s))@([\w@+~./-]+)")  # a file that a client adds to a prompt


class Edit(NamedTuple):
    """One replacement in a file: the text that goes, None where the whole file is written anew, and
    the text that comes.
    """

    path: str
    old: str | None
    new: str


class Touch(NamedTuple):
    """What a call does with files, or what a prompt shows of them. `kind`: it reads them, edits
    them, runs a command that names them (`run`), looks for a `text` (`grep`), or does anything
    else. `paths` are as they stand in it, from its `folder` on. `keep`: how a file was before the
    call is remembered as a whole, so that what the call changed is known whatever it says.
    """

    kind: str = "other"
    paths: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    text: str = ""
    call: str = ""
    folder: str = ""
    failed: bool = False
    keep: bool = False

    def used_names(self) -> set[str]:
        """Return the names that a call uses: that it looks for, that its command has, or that it
        adds to a file. Only what is looked for may be one plain word, which means something else
        elsewhere.
        """
        if self.kind in ("run", "grep") and not self.edits:
            names = names_in(self.text)
            if self.kind == "grep" or GREP.match(self.text):
                return names
        else:
            names = set[str]()
            for edit in self.edits:
                names |= names_in(edit.new) - names_in(edit.old or "")
        return set(filter(is_compound, names))


def paths_in(command: str) -> tuple[str, ...]:
    """Return the words of a command that may be files."""
    words = dict.fromkeys(_WORD.findall(command[:LONGEST]))
    return tuple([word for word in words if "." in word or "/" in word][:NAMED])


def shown_in(prompt: str) -> Iterator[str]:
    """Yield the paths of the files that a prompt shows."""
    yield from _SHOWN.findall(prompt[:LONGEST])
