"""Changes carried out on the bytes of one file, and undone on them.

Pure: bytes in, bytes out, with what was put in as values for the record. What cannot be undone to
the byte is refused before anything is written. Called by `apply`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from orchestrator.plugin.install.change import Block, File, Json
from orchestrator.plugin.install.files import fence, jsonc, members
from orchestrator.plugin.install.files.jsonc import Insertion, Malformed
from orchestrator.plugin.install.files.members import Clash
from synapse.errors import Conflict

Piece: TypeAlias = dict[str, Any]  # one thing that was put in, as the record keeps it
Text: TypeAlias = File | Json | Block


class Merged(NamedTuple):
    """What a file is to hold, what of it was put in, and what it holds without that: None for a
    file that is not there then."""

    data: bytes
    pieces: list[Piece]
    base: bytes | None


def merge(path: str, data: bytes | None, changes: Sequence[Text], old: Sequence[Piece]) -> Merged:
    """Return the file with our changes in it, those of an earlier installation replaced. Conflict
    names the file and the line where that cannot be done."""
    whole_file = next((change for change in changes if isinstance(change, File)), None)
    if whole_file is not None:
        return Merged(whole_file.text.encode(), [{"kind": "file"}], None)
    text = None if data is None else decode(path, data)
    try:
        base = without(text, old, changes)
        if base is not None and _is_shared(changes) and _is_empty(base, is_json=True):
            base = None
        merged, pieces = _put(text, base, changes, old)
        restored = without(merged, pieces, ())
    except (Malformed, Clash) as problem:
        raise Conflict(f"{path}:{problem.line}: {problem}", path=path, line=problem.line) from None
    if restored != base:
        raise Conflict(
            f"{path}: what would be put in could not be taken out again to the byte", path=path
        )
    return Merged(merged.encode(), pieces, None if base is None else base.encode())


def undo(path: str, data: bytes, pieces: Sequence[Piece]) -> bytes | None:
    """Return the file without what was put in, None where nothing else was ever in it."""
    return _take_out(path, data, pieces, ())


def take_out_marked(path: str, data: bytes, changes: Sequence[Text]) -> bytes | None:
    """Return the file without what is ours by its marks, where no record says what was put in."""
    return _take_out(path, data, (), changes)


def _take_out(
    path: str, data: bytes, pieces: Sequence[Piece], changes: Sequence[Text]
) -> bytes | None:
    try:
        text = without(decode(path, data), pieces, changes)
    except (Malformed, Clash) as problem:
        raise Conflict(f"{path}:{problem.line}: {problem}", path=path, line=problem.line) from None
    return None if text is None else text.encode()


def decode(path: str, data: bytes) -> str:
    """Return the text of a file; a byte order mark is its first character."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Conflict(f"{path}:{line}: this is not UTF-8", path=path, line=line) from None


def without(text: str | None, pieces: Sequence[Piece], changes: Iterable[Text]) -> str | None:
    """Return a text without what was put in, and without what an installation that left no record
    put in for the same changes."""
    if text is None or any(piece["kind"] == "file" for piece in pieces):
        return None
    before, recorded = text, [piece for piece in pieces if piece["kind"] == "json"]
    insertions = [_insertion(piece) for piece in recorded]
    insertions += [] if pieces else _unrecorded(text, changes)
    marks = {piece["mark"]: 1 for piece in recorded}
    marks |= {
        change.mark: 1
        for change in changes
        if isinstance(change, Json) and text.strip("\ufeff \t\r\n")
    }
    for mark in marks:
        text = members.take_out(text, insertions, mark)
        insertions = []
    blocks = [
        (piece["text"], piece["style"], piece["lead"], piece.get("by", fence.INSTALL))
        for piece in pieces
        if piece["kind"] == "block"
    ]
    blocks += [
        (change.text, change.style, None, change.by)
        for change in changes
        if isinstance(change, Block) and not blocks
    ]
    for body, style, lead, by in blocks:
        if lead and style == "markdown" and fence.is_alone(text):
            return None  # the block that began the file is gone, and all before this one
        text = fence.take_out(text, body, style, lead, by)
    for piece in pieces:
        if piece["kind"] == "start" and _is_empty(text, piece["json"]):
            return None if piece["before"] is None else str(piece["before"])
        if piece["kind"] == "start" and fence.is_alone(text.lstrip("\r\n")):
            text = text.lstrip("\r\n")  # so that who goes last knows
    if not pieces and text != before and _is_empty(text, is_json=bool(marks)):
        return None  # nothing but ours was in it
    return text


def _unrecorded(text: str, changes: Iterable[Text]) -> list[Insertion]:
    """Return what an installation that left no record put into a file in which its mark stands:
    not every member of ours has the mark.
    """
    return [
        Insertion((), key, value, "")
        for change in changes
        if isinstance(change, Json)
        and text.strip("\ufeff \t\r\n")
        and members.count_marks(jsonc.parse(text), change.mark)
        for key, value in change.members.items()
    ]


def _is_empty(text: str, is_json: bool) -> bool:
    if not is_json:
        return not text.strip("\ufeff \t\r\n")
    root = jsonc.parse(text)
    return (
        root.kind == "object" and not root.items and not text[root.start + 1 : root.end - 1].strip()
    )


def _put(
    text: str | None, base: str | None, changes: Sequence[Text], old: Sequence[Piece]
) -> tuple[str, list[Piece]]:
    """Return the text with all changes in it. What is there as it is to be stays where it is."""
    unchanged = _unchanged_pieces(text, changes, old)
    if text is not None and unchanged is not None:
        return text, unchanged
    merged, pieces = base, []
    for change in changes:
        if (
            isinstance(change, Block)
            and text is not None
            and (lead := _lead_of(text, change, old)) is not None
        ):
            merged, _ = fence.put(text, change.text, change.style, change.by)
            starts = _of_kind(old, "start")
            if lead and fence.is_alone(text):  # it begins the file by now
                starts, lead = [{"kind": "start", "before": None, "json": False}], ""
            return merged, [*starts, _block_piece(change, lead)]
        if merged is None or (isinstance(change, Json) and not merged.strip("\ufeff \t\r\n")):
            is_json = isinstance(change, Json)
            pieces.append({"kind": "start", "before": merged, "json": is_json})
            merged = (merged or "") + ("{\n}\n" if is_json else "")
        elif _is_shared([change]):
            pieces.append({"kind": "start", "before": None, "json": True})
        if isinstance(change, Json):
            merged, insertions = members.put(merged, change.members)
            pieces += [_piece(insertion, change.mark) for insertion in insertions]
        elif isinstance(change, Block):
            if change.style == "toml":
                fence.check_toml(merged, change.text)
            merged, lead = fence.put(merged, change.text, change.style, change.by)
            pieces.append(_block_piece(change, lead))
    assert merged is not None
    return merged, pieces


def _is_shared(changes: Iterable[Text]) -> bool:
    return any(isinstance(change, Json) and change.shared for change in changes)


def _lead_of(text: str, change: Block, old: Sequence[Piece]) -> str | None:
    """Return the white space that stands before a block which is replaced where it stands; None for
    one that is not there, and for TOML, where a client may have written into it."""
    leads = [str(piece["lead"]) for piece in _of_kind(old, "block")]
    is_there = change.style != "toml" and fence.span(text, change.style, change.by) is not None
    return leads[0] if is_there and len(leads) == 1 else None


def _block_piece(change: Block, lead: str) -> Piece:
    return {
        "kind": "block",
        "text": change.text,
        "style": change.style,
        "lead": lead,
        "by": change.by,
    }


def _unchanged_pieces(
    text: str | None, changes: Sequence[Text], old: Sequence[Piece]
) -> list[Piece] | None:
    """Return the recorded pieces where a file holds all that it is to hold, and nothing of ours
    besides."""
    if text is None or not old:
        return None
    is_there = True
    for change in changes:
        if isinstance(change, Json):
            root = jsonc.parse(text)
            marks = members.count_marks(root, change.mark)
            recorded = sum(_marks(piece, change.mark) for piece in _of_kind(old, "json"))
            wanted = members.count_marks(jsonc.parse(jsonc.dumps(change.members)), change.mark)
            is_there = members.has_all(root, change.members) and marks == recorded == wanted
        elif isinstance(change, Block) and change.style == "toml":
            is_there = change.text in [
                piece["text"] for piece in _of_kind(old, "block")
            ] and fence.holds(text, change.text)
        elif isinstance(change, Block):
            current = fence.span(text, change.style, change.by)
            block = (
                "" if current is None else text[current.start : current.end].replace("\r\n", "\n")
            )
            is_there = block.rstrip("\n") == fence.block(
                change.text, change.style, change.by
            ).rstrip("\n")
        if not is_there:
            return None
    return list(old)


def _marks(piece: Piece, mark: str) -> int:
    """Return how often the mark stands in a piece."""
    value = piece["value"] if piece["key"] is None else {piece["key"]: piece["value"]}
    return members.count_marks(jsonc.parse(jsonc.dumps(value)), mark)


def _of_kind(pieces: Sequence[Piece], kind: str) -> list[Piece]:
    return [piece for piece in pieces if piece["kind"] == kind]


def _piece(insertion: Insertion, mark: str) -> Piece:
    return {"kind": "json", "mark": mark, **insertion._asdict(), "pointer": list(insertion.pointer)}


def _insertion(piece: Piece) -> Insertion:
    return Insertion(tuple(piece["pointer"]), piece["key"], piece["value"], piece["tail"])
