"""The same team takes the same course, byte for byte, wherever and however often it is played."""

import os
import subprocess
import sys
from pathlib import Path

TEAM = Path(__file__).with_name("thirty.py")


def played(root, **environment):
    command = [sys.executable, str(TEAM), str(root)]
    told = subprocess.run(
        command,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    return told.stdout


def test_thirty_agents_take_the_same_course_everywhere(tmp_path):
    here = played(tmp_path / "here", PYTHONHASHSEED="1")
    elsewhere = tmp_path / "another" / "place with a space"
    elsewhere.parent.mkdir()
    assert played(elsewhere, PYTHONHASHSEED="2", TZ="Asia/Tokyo") == here
    print(here)


def test_a_course_that_chance_decides_is_found_out(tmp_path):
    text = TEAM.read_text()
    for old, new in (
        ('random.Random(f"{name} {seen.turn}")', "random.Random()"),
        ('("lead-a", "lead-b", "lead-c")', '("lead-a",)'),  # twelve are enough
        ('for team in "abc"', 'for team in "a"'),
    ):
        assert old in text
        text = text.replace(old, new)
    other = tmp_path / "chance.py"
    other.write_text(text)
    digests = set()
    for n in range(2):
        command = [sys.executable, str(other), str(tmp_path / f"ws{n}")]
        told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        digests.add(told.stdout.split()[0])
    assert len(digests) == 2
