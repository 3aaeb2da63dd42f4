"""What several routes ask for in the same way: keys of repeated requests, times, lists of names."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fastapi import Header, Path, Query
from pydantic import BaseModel, ConfigDict, StrictBool, StrictFloat, StrictInt

from synapse.acts.act import LARGEST
from synapse.model.dates import When

DIGITS = 12  # a time of so many digits counts microseconds; any other text is a phrase

Once = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="the same request with the same key writes nothing; another one is a 422",
    ),
]
Many = Annotated[list[str] | None, Query()]
# What a body has is of its own type: a text or a flag is no number.
Flag: TypeAlias = StrictBool
Whole: TypeAlias = StrictInt
Number: TypeAlias = StrictInt | StrictFloat
Texts = tuple[str, ...]
Id = Annotated[str, Path(max_length=200)]
Limit = Annotated[int | None, Query(ge=0, le=LARGEST)]
Time = Annotated[
    str | None,
    Query(
        max_length=200,
        description="24h, yesterday, 2026-02-01, or microseconds of 12 digits or more",
    ),
]

SomeTime = Annotated[str, Query(max_length=200)]


class Body(BaseModel):
    """A request's body: what it does not know is refused."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


def moment(text: str | None) -> When:
    """Return a time as the library takes it."""
    if text and len(text) >= DIGITS and text.isascii() and text.isdigit():
        return int(text)
    return text
