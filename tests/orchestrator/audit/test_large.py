"""A gigabyte of sessions is summed up in bounded memory."""

import pytest

from bench import auditing

MOST = 300  # megabytes


@pytest.mark.parametrize("megabytes", [24, pytest.param(1_024, marks=pytest.mark.soak)])
def test_many_sessions_take_little_memory(tmp_path, megabytes):
    auditing.make(tmp_path, megabytes)
    taken = auditing.measure(tmp_path)
    assert taken.figures["read"]["bytes"] >= megabytes * auditing.MEGABYTE
    assert taken.figures["calls"] == taken.figures["paid"]["turns"] > megabytes * 50
    assert taken.memory < MOST
