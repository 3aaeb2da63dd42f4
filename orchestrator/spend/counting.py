"""Token counts for a model: the encoding, the count, and the ratio to the provider's own count.
Knows nothing of memory. A text is counted once; later its count is looked up.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import NamedTuple

from orchestrator.engines.protocol import Engine, Request, Tool
from synapse.errors import StoreError
from synapse.system import plain_files
from synapse.system.tokens import DEFAULT, Keep, Stored, Tokens, digest, known, upper_bound

# By the beginning of a model's name, the longest first. What is not here is counted in o200k.
ENCODINGS = (
    ("gpt-4o", "o200k_base"),
    ("gpt-4.", "o200k_base"),
    ("gpt-4", "cl100k_base"),
    ("gpt-3", "cl100k_base"),
    ("text-embedding", "cl100k_base"),
)
# The families whose tokenizer one of the encodings is. Of others we know only how far off we were.
OWN = ("gpt-", "chatgpt-", "o1", "o3", "o4", "text-embedding")
# the ratio assumed of any other model until its provider has reported: stated, not measured
UNLEARNT = 1.2
BOUNDS = (0.5, 3.0)  # a ratio outside is somebody's mistake
ENOUGH = 2_000  # tokens counted before what was reported is believed
REMEMBERED = 2_000_000  # tokens; what lies further back counts half
ALLOWANCE = 0.1  # how far our count, scaled, may lie from the provider's own
MOST = 65_536  # counts that are kept in memory, about 8 MB


def encoding_of(model: str | None) -> str:
    """Return the encoding to count this model's tokens in. A provider's prefix (`openai/gpt-4o`)
    does not matter.
    """
    name = _bare(model)
    return next((encoding for start, encoding in ENCODINGS if name.startswith(start)), DEFAULT)


def is_own(model: str | None) -> bool:
    """Return whether the encoding is that model's own tokenizer."""
    return _bare(model).startswith(OWN)


class Counter:
    """Counts for one model.

    `counting` says how: `exact` in the encoding, or, where no tokenizer can be loaded, `estimate`
    for what is only reported. What must fit, a view or a reservation, is measured with an upper
    bound then.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        encoding: str | None = None,
        ratio: float | None = None,
        stored: Stored | None = None,
        keep: Keep | None = None,
        most: int = MOST,
    ) -> None:
        self.model = model
        self.encoding = known(encoding or encoding_of(model))
        self.ratio = ratio or (1.0 if is_own(model) else UNLEARNT)
        self.counting = "exact"
        self._below, self._keep, self._most = stored, keep, most
        self._counts: OrderedDict[bytes, int] = OrderedDict()
        self._mutex = Lock()
        self._tokens = Tokens(self.encoding, self._stored, self._kept)

    def count(self, text: str) -> int:
        """Return the tokens of a text; a quarter of its bytes where nobody can count them, and
        `counting` says so.
        """
        counts, bounded = self._tokens.measure((text,))
        if not bounded:
            return counts[0]
        self.counting = "estimate"
        return -(-upper_bound(text) // 4)

    def know(self, text: str, tokens: int) -> None:
        """Keep the count of a text that was added up from its parts."""
        self._remember({digest(text): tokens})

    def measure(self, texts: Iterable[str]) -> tuple[Sequence[int], bool]:
        """Return the count of each text, and whether any of them is only an upper bound."""
        return self._tokens.measure(texts)

    def bound(self, text: str) -> int:
        """Return a number of tokens that is no smaller than the provider's count, as far as is
        known.
        """
        (count,), _ = self._tokens.measure((text,))
        return self.theirs(count)

    def theirs(self, tokens: int) -> int:
        """Convert our count of tokens into the provider's."""
        return -(-int(tokens * self.ratio * 1_000) // 1_000)

    def ours(self, tokens: int) -> int:
        """Convert a budget in the provider's tokens into ours."""
        return int(tokens / self.ratio)

    def segments(self, request: Request) -> Iterator[tuple[str, int]]:
        """Return the label and the tokens of each piece of a request: the system text, each
        message, and the tools.
        """
        if request.system:
            yield "system", self.count(request.system)
        if request.tools:
            yield ("tool_schema", sum(self.count(schema_text(tool)) for tool in request.tools))
        for message in request.messages:
            calls = (f"{call.name}{_json(call.arguments)}" for call in message.calls)
            yield (message.label, sum(map(self.count, filter(None, (message.text, *calls)))))

    def _stored(self, digests: Sequence[bytes]) -> Mapping[bytes, int]:
        counts, unknown = {}, []
        with self._mutex:
            for key in digests:
                if key in self._counts:
                    self._counts.move_to_end(key)
                    counts[key] = self._counts[key]
                else:
                    unknown.append(key)
        if unknown and self._below:
            bounds = self._below(unknown)
            self._remember(bounds)
            counts |= bounds
        return counts

    def _kept(self, counts: Mapping[bytes, int]) -> None:
        self._remember(counts)
        if self._keep:
            self._keep(counts)

    def _remember(self, counts: Mapping[bytes, int]) -> None:
        with self._mutex:
            self._counts |= counts
            while len(self._counts) > self._most:
                self._counts.popitem(last=False)


def schema_text(tool: Tool) -> str:
    """Return the text of a tool that is counted: name, description and schema, as compact JSON."""
    return f"{tool.name}\n{tool.description}\n{_json(tool.schema)}"


class Checked(NamedTuple):
    """Our count of a request beside the provider's own."""

    ours: int
    theirs: int
    ratio: float

    @property
    def within(self) -> bool:
        return abs(self.ours * self.ratio - self.theirs) <= ALLOWANCE * self.theirs


async def check(counter: Counter, engine: Engine, request: Request) -> Checked | None:
    """Return the provider's own count beside ours; None where it has none."""
    theirs = await engine.count(request)
    ours = sum(tokens for _, tokens in counter.segments(request))
    return None if theirs is None else Checked(ours, theirs, counter.ratio)


class Ratios:
    """What providers reported ÷ what we counted, per model: a small file that any number of
    processes add to.
    """

    def __init__(self, root: str) -> None:
        self.path = os.path.join(root, "runs", "ratios.json")

    def of(self, model: str | None) -> float:
        reported, counted = self._read().get(_bare(model), (0, 0))
        if counted < ENOUGH:
            return 1.0 if is_own(model) else UNLEARNT
        return min(max(reported / counted, BOUNDS[0]), BOUNDS[1])

    def learn(self, model: str | None, reported: int, counted: int) -> None:
        """Add one call's input. Where one of the two is missing, nothing is learnt."""
        import fcntl

        if reported <= 0 or counted <= 0:
            return
        try:
            plain_files.make_folder(os.path.dirname(self.path))
            lock = plain_files.open_file(f"{self.path}.lock", os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._write(_added(self._read(), _bare(model), reported, counted))
            finally:
                os.close(lock)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error}") from error

    def _read(self) -> dict[str, tuple[int, int]]:
        """Return the stored ratios; none where the file is missing or damaged, for they are learnt
        again.
        """
        try:
            entries = json.loads(plain_files.read_file(self.path, 1 << 24))
            return {
                model: (int(entry["reported"]), int(entry["counted"]))
                for model, entry in entries.items()
            }
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return {}

    def _write(self, ratios: Mapping[str, tuple[int, int]]) -> None:
        entries = {
            model: {"reported": reported, "counted": counted}
            for model, (reported, counted) in ratios.items()
        }
        text = json.dumps(entries, indent=1, sort_keys=True)
        plain_files.replace_file(self.path, text.encode())


def _added(
    known: dict[str, tuple[int, int]], model: str, reported: int, counted: int
) -> dict[str, tuple[int, int]]:
    before = known.get(model, (0, 0))
    total = (before[0] + reported, before[1] + counted)
    halved = (total[0] // 2, total[1] // 2) if total[1] > REMEMBERED else total
    return known | {model: halved}


def _bare(model: str | None) -> str:
    """Return the model's name without its provider's, in small letters."""
    return (model or "").rpartition("/")[2].lower()


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
