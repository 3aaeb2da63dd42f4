"""Reading a Cortex folder: short-term memory, collections, atoms, links and vectors, in JSON and
SQLite.

What is known by name is read: `stm.json`, `collections/*.json`, `atoms.json`, `embeddings.json`,
and of any SQLite file the tables `stm`, `atoms`, `atom_links`, `causal_links` and `embeddings`.
Reads files; writes none.
"""

from __future__ import annotations

import json
import os
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from math import isfinite

from synapse.errors import InvalidEntry
from synapse.formats.mail_json import LONGEST, new_id
from synapse.model import kinds
from synapse.model.clock import micros
from synapse.model.records import canonical_body
from synapse.system.typed import Any, NamedTuple

# which of them a vector of unnamed origin is of
MODELS = {384: "all-MiniLM-L6-v2", 768: "nomic-embed-text"}
PARTS = ("subject", "action", "outcome", "consequences")
LINK_TYPES = ("causes", "enables", "precedes", "correlates")
_ITEM = {"message": kinds.MESSAGE, "stm": kinds.FACT, "atom": kinds.ATOM}


class OldFact(NamedTuple):
    id: str
    content: str
    categories: tuple[str, ...]
    importance: float
    access_count: int
    at: str | None
    expires: str | None
    source: str
    source_message: str | None
    rest: str | None


class OldAtom(NamedTuple):
    id: str
    parts: tuple[str, str, str, str]
    confidence: float
    access_count: int
    at: str | None
    source: str
    source_message: str | None
    rest: str | None


class OldLink(NamedTuple):
    cause: str
    effect: str
    type: str
    strength: float
    rest: str | None


class OldVector(NamedTuple):
    """The vector of an item, or of one part of an atom, with its model. `values` are little-endian
    float32.
    """

    item: str
    part: str
    model: str
    dimension: int
    values: bytes
    at: str | None


class OldCortex(NamedTuple):
    """What a folder holds, without repeats; `read` is how many rows of each were there, `files`
    what was read.
    """

    facts: tuple[OldFact, ...]
    atoms: tuple[OldAtom, ...]
    links: tuple[OldLink, ...]
    vectors: tuple[OldVector, ...]
    read: Mapping[str, int]
    files: tuple[str, ...]
    problems: tuple[str, ...]


Row = Mapping[str, Any]


def read(folder: str, model: str | None = None) -> OldCortex:
    """Read a whole Cortex folder. `model` names the model of vectors that do not say it."""
    reader = _Reader(model)
    if not os.path.isdir(folder):
        reader.problems.append(f"{folder} is no folder")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        if name == "collections" and os.path.isdir(path):
            for file_name in sorted(os.listdir(path)):
                if file_name.endswith(".json"):
                    reader.file(os.path.join(path, file_name), "collection")
        elif name in ("stm.json", "atoms.json", "embeddings.json"):
            reader.file(path, name.removesuffix(".json"))
        elif name.endswith((".db", ".sqlite", ".sqlite3")):
            reader.file(path, "database")
    return reader.found()


class _Reader:
    """One reading: what came to light, each item once."""

    def __init__(self, model: str | None) -> None:
        self.model = model
        self.items: dict[str, dict[Any, Any]] = {
            "stm": {},
            "atoms": {},
            "links": {},
            "embeddings": {},
        }
        self.count = dict.fromkeys(self.items, 0)
        self.files: list[str] = []
        self.problems: list[str] = []
        # vectors may name what they are of by its text
        self.later: list[tuple[str, Sequence[Any] | None]] = []
        self.by_text: dict[str, str] = {}
        self.dimensions: dict[str, int] = {}

    def found(self) -> OldCortex:
        for path, rows in self.later:
            self._rows(path, "embeddings", rows)
        facts, atoms, links, vectors = (tuple(item.values()) for item in self.items.values())
        return OldCortex(
            facts, atoms, links, vectors, self.count, tuple(self.files), tuple(self.problems)
        )

    def file(self, path: str, what: str) -> None:
        """Read one file; a pipe or a device in its place is never opened."""
        if not os.path.isfile(path):
            self.problems.append(f"{path} cannot be read: it is no file")
        elif what == "database":
            self.database(path)
        else:
            self.json(path, what)

    def json(self, path: str, what: str) -> None:
        try:
            with open(path, encoding="utf-8") as file:
                data = json.load(file)
        except (OSError, ValueError, RecursionError) as error:
            self.problems.append(f"{path} cannot be read: {error}")
            return
        self.files.append(path)
        if what in ("stm", "collection"):
            own = os.path.splitext(os.path.basename(path))[0] if what == "collection" else None
            self._rows(
                path,
                "stm",
                _listed(data, ("short_term_memory", "stm", "entries", "memories", "items")),
                own,
            )
        elif what == "atoms":
            self._rows(path, "atoms", _listed(data, ("atoms",)))
            self._rows(
                path,
                "links",
                _listed(data, ("links", "atom_links", "causal_links")) if _has_links(data) else [],
            )
        else:
            model = data.get("model") if isinstance(data, Mapping) else None
            rows = _listed(data, ("embeddings", "vectors", "memories"))
            self.later.append((path, _of_model(rows, model)))

    def database(self, path: str) -> None:
        """Read the known tables of a SQLite file, by the names of their columns."""
        try:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
                connection.row_factory = sqlite3.Row
                names = {
                    row[0]
                    for row in connection.execute(
                        "select name from sqlite_master where type = 'table'"
                    )
                }
                tables = {
                    "stm": "stm",
                    "atoms": "atoms",
                    "atom_links": "links",
                    "causal_links": "links",
                    "embeddings": "embeddings",
                }
                for table, kind in tables.items():
                    if table in names:
                        rows = [dict(row) for row in connection.execute(f"select * from {table}")]
                        if kind == "embeddings":
                            self.later.append((f"{path} ({table})", rows))
                        else:
                            self._rows(f"{path} ({table})", kind, rows)
            self.files.append(path)
        except sqlite3.DatabaseError as error:
            self.problems.append(f"{path} cannot be read: {error}")

    def _rows(
        self, path: str, what: str, rows: Sequence[Any] | None, category: str | None = None
    ) -> None:
        if rows is None:
            self.problems.append(f"{path} holds no list that is known")
            return
        for index, row in enumerate(rows):
            self.count[what] += 1
            try:
                if not isinstance(row, Mapping):
                    raise InvalidEntry("it is not an object")
                for key, item in self._read(what, row, category):
                    before = self.items[what].get(key)
                    if isinstance(before, OldFact) and not row.get("id"):
                        item = _merged(before, item)
                    elif before not in (None, item):
                        raise InvalidEntry(f"{key} exists already with another content")
                    self.items[what][key] = item
            except (InvalidEntry, ValueError, TypeError) as error:
                self.problems.append(f"{path}: {what} {index}: {error}")

    def _read(self, what: str, row: Row, category: str | None) -> Iterator[tuple[Any, Any]]:
        if what == "stm":
            fact = _fact(row, category)
            self.by_text.setdefault(fact.content, fact.id)
            yield fact.id, fact
        elif what == "atoms":
            atom = _atom(row)
            yield atom.id, atom
            self._parts(atom, row)
        elif what == "links":
            link = _link(row)
            yield (link.cause, link.effect), link
        else:
            yield from self._embedding(row)

    def _parts(self, atom: OldAtom, row: Row) -> None:
        """Add the vectors that an atom has for each of its parts."""
        for part_name in PARTS:
            if (embedding := row.get(f"{part_name}_embedding")) is not None:
                self.count["embeddings"] += 1
                for key, vector in self._vector(atom.id, part_name, embedding, None, atom.at):
                    self.items["embeddings"].setdefault(key, vector)

    def _embedding(self, row: Row) -> Iterator[tuple[Any, OldVector]]:
        kind = str(row.get("source_type") or "stm")
        old, text = row.get("source_id", row.get("memory_id")), row.get("content")
        if kind not in _ITEM:
            raise InvalidEntry(f"source_type {kind!r} is not one of {', '.join(_ITEM)}")
        if old is None and text is not None and text in self.by_text:
            item = self.by_text[text]
        elif old is not None:
            item = new_id(_ITEM[kind], str(old))
        else:
            raise InvalidEntry("it does not say of what: add source_id")
        vector = next(
            (row[name] for name in ("embedding", "vector") if row.get(name) is not None), None
        )
        yield from self._vector(item, "", vector, row.get("model"), row.get("created_at"))

    def _vector(
        self, item: str, part: str, given: Any, model: Any, at: Any
    ) -> Iterator[tuple[Any, OldVector]]:
        values = _floats(given)
        name = str(model or self.model or MODELS.get(len(values) // 4) or "")
        if not name:
            raise InvalidEntry(
                f"its {len(values) // 4} numbers belong to an unnamed model: give --model"
            )
        vector = OldVector(
            item, part, name, len(values) // 4, values, None if at is None else str(at)
        )
        if self.dimensions.setdefault(name, vector.dimension) != vector.dimension:
            one, two = self.dimensions[name], vector.dimension
            raise InvalidEntry(
                f"{name} has vectors of {one} numbers and of {two}: they are of two models"
            )
        yield (item, part, name), vector


def _listed(data: Any, names: Sequence[str]) -> Sequence[Any] | None:
    if isinstance(data, Mapping):
        data = next((data[name] for name in names if name in data), None)
    return data if isinstance(data, list) else None


def _of_model(rows: Sequence[Any] | None, model: Any) -> Sequence[Any] | None:
    """Return the rows, with the model that the file names for all of them."""
    if rows is None or model is None:
        return rows
    return [{"model": model, **row} if isinstance(row, Mapping) else row for row in rows]


def _has_links(data: Any) -> bool:
    return isinstance(data, Mapping) and any(
        name in data for name in ("links", "atom_links", "causal_links")
    )


# -- rows ------------------------------------------------------------------------------

_FACT = frozenset(
    "content categories category importance access_count timestamp created_at expires_at source"
    " source_message_id".split()
)
_ATOM = frozenset(
    (*PARTS, "confidence", "access_count", "created_at", "source", "source_message_id")
)
_LINK = frozenset(("from_atom_id", "to_atom_id", "from_id", "to_id", "link_type", "strength"))


def _fact(row: Row, category: str | None) -> OldFact:
    content = row.get("content")
    if not isinstance(content, str) or not content.strip():
        raise InvalidEntry("it has no content")
    at = _moment(row.get("created_at", row.get("timestamp")))
    old = str(row.get("id") or f"{content}{at}")
    own = (
        _list(row.get("categories"))
        or _list(row.get("category"))
        or ((category,) if category else ())
    )
    fact = OldFact(
        new_id(kinds.FACT, old),
        content,
        own,
        _number(row, "importance", 1.0),
        int(_number(row, "access_count", 0)),
        at,
        _moment(row.get("expires_at")),
        str(row.get("source") or "agent"),
        _text(row.get("source_message_id")),
        None,
    )
    extra = {"content": content} if canonical_body(content) != content else {}
    if isinstance(row.get("category"), str) and (row["category"],) != own[:1]:
        extra["category"] = row["category"]
    return fact._replace(rest=_rest(row, _FACT, extra))


def _merged(one: OldFact, other: OldFact) -> OldFact:
    """Merge a fact of a collection with the same fact of short-term memory, keeping the categories
    of both."""
    categories = tuple(dict.fromkeys((*one.categories, *other.categories)))
    weight = max(one.importance, other.importance)
    count = max(one.access_count, other.access_count)
    return one._replace(categories=categories, importance=weight, access_count=count)


def _atom(row: Row) -> OldAtom:
    values = [row.get(name) for name in PARTS]
    if not all(isinstance(item, str) and item.strip() for item in values[:3]):
        raise InvalidEntry("it lacks its subject, action or outcome")
    texts = [" ".join(str(item or "").split()) for item in values]
    at = _moment(row.get("created_at"))
    old = str(row.get("id") or "|".join(map(str, (*texts, at))))
    odd = {
        name: item
        for name, item, text in zip(PARTS, values, texts, strict=True)
        if item and item != text
    }
    return OldAtom(
        new_id(kinds.ATOM, old),
        (texts[0], texts[1], texts[2], texts[3]),
        _number(row, "confidence", 1.0),
        int(_number(row, "access_count", 0)),
        at,
        str(row.get("source") or "agent"),
        _text(row.get("source_message_id")),
        _rest(row, _ATOM | {f"{item}_embedding" for item in PARTS}, odd),
    )


def _link(row: Row) -> OldLink:
    ends = [row.get(f"{end}_atom_id", row.get(f"{end}_id")) for end in ("from", "to")]
    if not all(ends):
        raise InvalidEntry("it lacks one of its atoms")
    type = str(row.get("link_type") or "causes")
    if type not in LINK_TYPES:
        raise InvalidEntry(f"link type {type!r} is not one of {', '.join(LINK_TYPES)}")
    strength = _number(row, "strength", 0.5)
    cause, effect = (new_id(kinds.ATOM, str(end)) for end in ends)
    return OldLink(cause, effect, type, strength, _rest(row, _LINK, {}))


def _rest(row: Row, known: Iterable[str], more: Mapping[str, Any]) -> str | None:
    """Return the fields of a row that have no place of their own here, as JSON."""
    extra = {
        name: value for name, value in row.items() if name not in known and value is not None
    } | dict(more)
    if not extra:
        return None
    text = json.dumps(extra, ensure_ascii=False, sort_keys=True)
    if len(text) > LONGEST:
        raise InvalidEntry(f"it says more than {LONGEST} characters that have no place here")
    return text


def _number(row: Row, name: str, default: float) -> float:
    value = row.get(name)
    if value is None:
        return default
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not isfinite(value)
        or value < 0
    ):
        raise InvalidEntry(f"{name} {value!r} is no number from 0 on")
    return value


def _moment(value: Any) -> str | None:
    if value is None or value == "":
        return None
    micros(str(value))
    return str(value)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _list(value: Any) -> tuple[str, ...]:
    """Return a list of words, which SQLite holds as JSON."""
    if isinstance(value, str) and value.startswith("["):
        value = json.loads(value)
    items = [value] if isinstance(value, str) else value or ()
    return tuple(dict.fromkeys(str(item).strip() for item in items if str(item).strip()))


def _floats(value: Any) -> bytes:
    """Return a vector as float32 bytes; it comes as numbers, as their JSON, or as the bytes."""
    if isinstance(value, str):
        value = json.loads(value)
    if isinstance(value, list):
        value = array("f", value).tobytes()
    if not isinstance(value, bytes) or not value or len(value) % 4:
        raise InvalidEntry("it is not a vector of 32-bit floats")
    if not all(map(isfinite, array("f", value))):
        raise InvalidEntry("its vector holds something that is not a number")
    return value
