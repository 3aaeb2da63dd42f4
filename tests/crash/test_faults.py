"""The faults of `kill`: each kind happens at the call that was asked for, and a writer that is not
whole at each of its calls is found out.
"""

import os

import pytest

from tests.crash import kill

WORDS = "new " * 9


def carefully(folder):
    with open(os.open(f"{folder}/.draft", os.O_WRONLY | os.O_CREAT), "w") as file:
        os.write(file.fileno(), WORDS.encode())
    os.rename(f"{folder}/.draft", f"{folder}/file")


def carelessly(folder):
    fd = os.open(f"{folder}/file", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for word in WORDS.split():
        os.write(fd, f"{word} ".encode())
    os.close(fd)


def torn(folder, work):
    """Return the calls at which a killed writer leaves neither the old text nor the new one."""

    def fresh():
        (folder / "file").write_text("old")
        return (folder,)

    every = kill.kills(work, fresh, kill.NEVER)
    return [at for at, _ in every if (folder / "file").read_text() not in ("old", WORDS)]


def test_a_careful_writer_is_whole_and_a_careless_one_is_torn(tmp_path):
    assert torn(tmp_path, carefully) == []
    assert torn(tmp_path, carelessly) == [*range(2, 11)]


def test_the_call_fails_that_was_asked_for(tmp_path):
    life = kill.begun(carelessly, tmp_path, at=4, act="ENOSPC")
    assert "No space left" in life.communicate(60)[1]
    assert life.returncode == 1
    assert (tmp_path / "file").read_text() == "new " * 2


@pytest.mark.parametrize(("count", "most"), [(1, 5), (5, 5), (7, 3), (100, 12), (3, 60)])
def test_the_calls_are_spread_from_the_first_to_the_last(count, most):
    points = kill.points(count, most)
    assert len({*points}) == len(points) == min(count, most)
    assert (points[0], points[-1]) == (1, count)
