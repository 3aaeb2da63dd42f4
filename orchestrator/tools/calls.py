"""The intent of a tool call: which calls ask for the same thing, and when a result still holds.
Pure; `sharing` uses it.

`Shares` is what a user declares of a tool, on it or in synapse.yaml; `act_of` names a call for the
whole team; `condensed` picks from a long result what is worth passing on.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from synapse.errors import InvalidEntry
from synapse.index.full_text import terms
from synapse.model.condense import Shape, Turn, condense
from synapse.model.entry import parse_ttl
from synapse.system.digest import sha256

LONG = 1_200  # characters, about 300 tokens: a longer result is passed on condensed
SHORT = 400  # characters of one that was condensed, about 100 tokens
NAME = 180  # characters of the name of an act; a longer one ends in its fingerprint
_ENDS = " .,;:!?…"
_PLAIN = re.compile(r"[^\W\d_][\w ./:@#-]*")
_NO_TEXTS = ("true", "false", "null")
_EXAMPLE = "such as {shares: true, lifetime: 1d, files: [path]}"


class Shares(NamedTuple):
    """What a user says of a tool that reads, and whose result holds for everybody: for how long,
    where not until something changes; which arguments name the files that it reads; and whether
    long results are passed on whole."""

    lifetime: str | None = None
    files: tuple[str, ...] = ()
    whole: bool = False


class Act(NamedTuple):
    """A call as the team knows it. `key` is the same for all calls that ask for the same thing;
    `work` is its name for people, in claims and as a topic; `words` are those of its arguments;
    `paths` are the files that it reads; `place` is the work tree and the branch that it is made
    in, where that matters."""

    key: str
    work: str
    label: str
    words: str
    paths: tuple[str, ...]
    shares: Shares
    place: str = ""


def shares_of(value: bool | str | Shares) -> Shares | None:
    """Return what `shares=` says: None for nothing shared. InvalidEntry where it cannot be
    meant.
    """
    if value is False or value is None:
        return None
    if value is True:
        return Shares()
    if value == "whole":
        return Shares(whole=True)
    if not isinstance(value, Shares):
        raise InvalidEntry(f"shares is {value!r:.40}: write True, 'whole' or Shares(lifetime='1d')")
    wrong = f"lifetime is {value.lifetime!r:.40}: write one such as 30m"
    if not isinstance(value.lifetime, str | None):
        raise InvalidEntry(wrong)
    try:
        span = parse_ttl(value.lifetime or "never")
    except InvalidEntry:
        raise InvalidEntry(wrong) from None
    if span == 0:
        raise InvalidEntry(
            f"lifetime {value.lifetime!r} is over at once: write one such as 30m or 7d"
        )
    files = (value.files,) if isinstance(value.files, str) else tuple(value.files)
    return value._replace(files=files)


def declared(settings: Mapping[str, Any]) -> dict[str, Shares | None]:
    """Return what `tools:` in synapse.yaml says of each tool; InvalidEntry says what to write."""
    tools = settings.get("tools") or {}
    if not isinstance(tools, Mapping):
        raise InvalidEntry(f"tools is not valid: write a line for each, {_EXAMPLE}")
    return {str(name): _declared(str(name), fields) for name, fields in tools.items()}


def _declared(name: str, fields: object) -> Shares | None:
    if not isinstance(fields, Mapping):
        raise InvalidEntry(f"tools: {name} is not valid: write fields, {_EXAMPLE}")
    shares = str(fields.get("shares", "true")).strip().lower()
    if shares not in ("true", "false", "whole"):
        raise InvalidEntry(f"tools: {name}: shares is {shares!r:.40}: write true, false or whole")
    files = fields.get("files") or ()
    files = (files,) if isinstance(files, str) else tuple(files)
    if not all(isinstance(file, str) for file in files):
        raise InvalidEntry(
            f"tools: {name}: files is not valid: write names of arguments, {_EXAMPLE}"
        )
    lifetime = fields.get("lifetime")
    try:
        declared = shares_of(Shares(lifetime and str(lifetime), files, shares == "whole"))
    except InvalidEntry as error:
        raise InvalidEntry(f"tools: {name}: {error}") from None
    return None if shares == "false" else declared


def shared(
    settings: Mapping[str, Any], of_task: Mapping[str, Any], takes: Mapping[str, Collection[str]]
) -> dict[str, Shares | None]:
    """Return what a task says of what tools share, and synapse.yaml of the others. InvalidEntry
    where `files` names what is no argument of its tool; `takes` has the arguments of the tools that
    are here.
    """
    shares = declared(settings) | declared({"tools": of_task})
    for name, value in shares.items():
        if problem := misnamed(value, takes.get(name)):
            raise InvalidEntry(f"tools: {name}: {problem}")
    return shares


def misnamed(shares: Shares | None, takes: Collection[str] | None) -> str | None:
    """Return what is wrong with the names of `files`; None where nothing is, or nobody knows."""
    if shares is None or takes is None:
        return None
    unknown = [file for file in shares.files if file not in takes]
    return (
        f"files names {', '.join(unknown)}; it takes {', '.join(takes) or 'nothing'}"
        if unknown
        else None
    )


# -- which call it is ------------------------------------------------------------------------------


def act_of(
    name: str,
    arguments: Mapping[str, Any],
    shares: Shares,
    schema: Mapping[str, Any] | None = None,
    folder: str = "",
) -> Act:
    """Return the act that a call is. An argument that is left out counts as its default; a path
    begins in the folder that the tool works in, so that two work trees never name one file.
    """
    full = {**_defaults(schema or {}), **arguments}
    folded = {
        key: _located(value, folder) if key in shares.files else _folded(value)
        for key, value in sorted(full.items())
    }
    text = json.dumps([name, folded], ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    digest = sha256(text.encode("utf-8", "surrogatepass"))[:24]
    listed = ", ".join(f"{key}={_worded(value)}" for key, value in folded.items())
    work = f"{name}: {listed}" if listed else name
    if len(work) > NAME:
        work = f"{work[:NAME].rstrip()}… #{digest[:8]}"
    shown_arguments = ", ".join(f"{key}={_line(value)}" for key, value in arguments.items())
    paths = tuple(path for key in shares.files for path in texts(folded.get(key)))
    words = " ".join(word for value in arguments.values() for word in _scalars(value))
    return Act(f"act:{digest}", work, f"{name}({_cut(shown_arguments)})", words, paths, shares)


def _defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties", {})
    return {
        key: field["default"]
        for key, field in properties.items()
        if isinstance(field, Mapping) and "default" in field
    }


def _located(value: Any, folder: str) -> Any:
    """Return a value whose texts are paths with each of them from the root on."""
    if isinstance(value, str):
        return os.path.normpath(os.path.join(folder, os.path.expanduser(value)))
    if isinstance(value, Mapping):
        return {str(key): _located(item, folder) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_located(item, folder) for item in value]
    return value


def _folded(value: Any) -> Any:
    """Return a value without what makes no difference: the case of plain words, spaces and marks at
    the end of a line. A text of several lines stays as it is."""
    if isinstance(value, str):
        text = unicodedata.normalize("NFC", value).strip()
        return text if "\n" in text else " ".join(map(_word, text.split())).rstrip(_ENDS)
    if isinstance(value, Mapping):
        return {str(key): _folded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_folded(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _word(word: str) -> str:
    """Return a word in lower case, unless its case may mean something, as in an identifier or
    address.
    """
    letters = word.rstrip(_ENDS)
    return word.lower() if letters.isalpha() and (letters.istitle() or letters.isupper()) else word


def _worded(value: Any) -> str:
    """Return a folded value so that no two are worded alike."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value not in _NO_TEXTS:
        return value
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if text.isprintable() else json.dumps(value, sort_keys=True)


def _line(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return " ".join(text.split())


def _cut(text: str, most: int = 160) -> str:
    return text if len(text) <= most else f"{text[:most].rstrip()}…"


def _scalars(value: Any) -> Iterator[str]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _scalars(item)
    else:
        yield from texts(value)


def texts(value: Any) -> Iterator[str]:
    """Yield the texts in a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts(item)


# -- what of a result is passed on -----------------------------------------------------------------


def condensed(text: str, words: str) -> str | None:
    """Return the lines of a long result that share the words of the call or name something, in
    their order and about 100 tokens of them; None where the result is short."""
    if len(text) <= LONG:
        return None
    telling = " ".join(terms.sought(words))
    telling_lines = _kept(text, telling, Shape(0, 0, 0, SHORT))
    room = SHORT - sum(len(line) + 1 for line in telling_lines)
    matching = _kept(text, "\n".join((words, *telling_lines)), Shape(0, 0, max(room, 0) // 4, 0))
    selected = {*telling_lines, *matching}
    if not selected:
        return f"{text[: SHORT // 2].strip()}\n[...]\n{text[-SHORT // 2 :].strip()}"
    lines = dict.fromkeys((*telling_lines, *matching))
    return "\n".join(sorted(lines, key=text.find))


def _kept(text: str, words: str, shape: Shape) -> list[str]:
    condensed_lines = condense((Turn("", text),), words, lambda line: len(line) // 4 + 1, shape)
    return [line for piece in condensed_lines.pieces for line in piece.split("\n")]


# -- who may wait for whom -------------------------------------------------------------------------


def closes_circle(
    run: str, holder: str, waits: Mapping[str, str], parents: Mapping[str, str | None]
) -> bool:
    """Return whether a run that waited for a holder would wait for itself, or for its own family.

    `waits` has the runs that wait and for whom, `parents` those that live. Who is above a run may
    wait for it.
    """
    return run in _above(holder, parents) or run in _awaited(holder, waits, parents)


def _above(run: str, parents: Mapping[str, str | None]) -> set[str]:
    ancestors: set[str] = set()
    parent = parents.get(run)
    while parent is not None and parent not in ancestors:
        ancestors.add(parent)
        parent = parents.get(parent)
    return ancestors


def _awaited(run: str, waits: Mapping[str, str], parents: Mapping[str, str | None]) -> set[str]:
    """Return the run and all that it waits for, or may."""
    awaited_runs: set[str] = set()
    queue = [run]
    while queue:
        next = queue.pop()
        if next not in awaited_runs:
            awaited_runs.add(next)
            queue += [waits[next]] if next in waits else []
            queue += [child for child, parent in parents.items() if parent == next]
    return awaited_runs
