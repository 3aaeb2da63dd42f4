"""Counts of tokens that the index keeps."""

import pytest

import synapse
from synapse.index import counts


@pytest.fixture
def index():
    with synapse.open("memory:") as memory:
        yield memory.store.index


def digest(number):
    return number.to_bytes(8)


@pytest.mark.parametrize("many", [1, 499, 500, 501, 1_001])
def test_counts_come_back_however_many_are_asked_for(index, many):
    kept = {digest(number): number for number in range(many)}
    index.keep_tokens("o200k_base", kept)
    for _ in range(2):
        assert index.token_counts("o200k_base", [*kept, b"none"]) == kept
        assert index.token_counts("cl100k_base", [*kept]) == {}
    assert index.token_counts("o200k_base", [digest(0)]) == {digest(0): 0}
    assert index.token_counts("o200k_base", []) == {}


def test_no_more_counts_are_held_than_there_is_room_for(index, monkeypatch):
    monkeypatch.setattr(counts, "COUNTED", 3)
    index.keep_tokens("o200k_base", {digest(number): number for number in range(9)})
    for number in range(9):
        assert index.token_counts("o200k_base", [digest(number)]) == {digest(number): number}
        assert len(index.counts["o200k_base"]) <= 4
