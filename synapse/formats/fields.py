"""The fields of a declared file, read one by one: `FieldReader` takes each by its name and kind.

What is wrong is collected, and raised together. Called by `declared`, which knows the keys.
"""

from __future__ import annotations

from collections.abc import Iterable

from synapse.errors import InvalidEntry
from synapse.model.entry import words
from synapse.model.settings import Settings, settled_settings
from synapse.system import yaml
from synapse.system.yaml import Fields, Value

MAX_FILE = 64 << 10
_DEPTH = 6


def load(text: str, path: str) -> Fields:
    prefix = f"{path}: " if path else ""
    try:
        if len(text) > MAX_FILE:
            raise InvalidEntry(f"longer than {MAX_FILE >> 10} KiB")
        return yaml.load(text.removeprefix("\ufeff"), depth=_DEPTH, typed=True)
    except InvalidEntry as error:
        raise InvalidEntry(f"{prefix}{error}", path=path, problems=[str(error)]) from None


class FieldReader:
    """The fields of one mapping, taken by name and kind. Problems are collected and raised at the
    end."""

    def __init__(
        self, fields: Value, path: str, prefix: str = "", problems: list[str] | None = None
    ) -> None:
        self.path = path
        self.where = f"{path}: " if path else ""
        self.prefix = prefix
        self.problems: list[str] = [] if problems is None else problems
        self.fields: Fields = fields if isinstance(fields, dict) else {}
        if not isinstance(fields, dict):
            self.problems.append(f"{prefix or 'the file: '}expected `key: value` lines")

    def unfold(self, name: str) -> None:
        """Take the fields of a block as if they stood beside it."""
        block = self.fields.pop(name, None)
        if isinstance(block, dict):
            self.fields = {**self.fields, **block}
        elif block is not None:
            self._wrong(name, "a block of `key: value` lines")

    def text(self, name: str) -> str | None:
        value = self.fields.get(name)
        if isinstance(value, dict | list):
            self._wrong(name, "one text")
            return None
        return None if value is None else yaml.text_of(value)

    def number(self, name: str) -> int | None:
        value = self.fields.get(name)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
            return int(value)
        self._wrong(name, "a whole number")
        return None

    def flag(self, name: str) -> bool:
        value = self.fields.get(name)
        text = "false" if value is None else str(value).lower()
        if text not in ("true", "yes", "on", "false", "no", "off"):
            self._wrong(name, "true or false")
        return text in ("true", "yes", "on")

    def many(self, name: str) -> tuple[str, ...] | None:
        value = self.fields.get(name)
        if value is None:
            return None
        items: Iterable[Value] = (
            value if isinstance(value, list) else yaml.text_of(value).split(",")
        )
        if isinstance(value, dict) or any(isinstance(item, dict | list) for item in items):
            self._wrong(name, "a list such as [one, two]")
            return None
        return words([yaml.text_of(item) for item in items if item is not None])

    def pairs(self, name: str) -> tuple[tuple[str, str], ...]:
        value = self.fields.get(name)
        block = {} if value is None else value
        if not isinstance(block, dict) or any(
            item is None or isinstance(item, dict | list) for item in block.values()
        ):
            self._wrong(name, "a block of `key: value` lines")
            return ()
        return tuple((key, yaml.text_of(item)) for key, item in block.items())

    def mappings(self, name: str) -> list[Fields]:
        value = self.fields.get(name)
        blocks = (
            [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
        )
        if value is not None and (not isinstance(value, list) or len(blocks) < len(value)):
            self._wrong(name, "a list of blocks")
        return blocks

    def check(self, settings: Settings) -> None:
        """Note what is wrong with settings that were read."""
        try:
            settled_settings(settings)
        except InvalidEntry as error:
            self.problems.append(str(error))

    def finish(self) -> None:
        if self.problems:
            message = self.where + "; ".join(self.problems)
            raise InvalidEntry(message, path=self.path, problems=list(self.problems))

    def _wrong(self, name: str, want: str) -> None:
        self.problems.append(f"{self.prefix}{name} is not valid: write {want}")
