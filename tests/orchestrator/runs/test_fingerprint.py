"""The same program has the same fingerprint in every process, another one has not."""

import functools
import subprocess
import sys

import pytest

from orchestrator.engines.openai_chat import OpenAIChat
from orchestrator.engines.scripted import Scripted
from orchestrator.runs.fingerprint import fingerprint

SCRIPT = """
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.runs.fingerprint import fingerprint
PLAN = "Use port 8080"
COUNT = 0
WORDS = frozenset(("b", "a", "c", "d"))
def helper(seen):
    return PLAN if "x" in {"x", "y", "z"} else None
def made(text):
    def script(seen):
        global COUNT
        COUNT += 1
        inner = [lambda: word for word in WORDS]
        return helper(seen) or text or inner
    return script
engine = Scripted(made("It is done."))
"""
PRINT = SCRIPT + "print(*fingerprint({'mine': engine}, {'model': 'm'}, {}))\n"


def of(code=SCRIPT):
    names = {"__name__": "program"}
    exec(code, names)
    return names, fingerprint({"mine": names["engine"]}, {"model": "m"}, {})


def test_it_is_the_same_in_every_process():
    code = PRINT.replace("\nPLAN", "\n__name__ = 'program'\nPLAN")
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout.split()[0]
        for seed in ("1", "2", "3")
    }
    assert len(printed) == 1
    assert of()[1] == of()[1]


def test_it_is_the_same_wherever_the_code_stands_and_however_often_it_ran():
    names, before = of()
    assert of("\n\n\n# a comment\n" + SCRIPT)[1] == before
    for _ in range(2000):
        names["engine"].script(None)
    assert fingerprint({"mine": names["engine"]}, {"model": "m"}, {}) == before


@pytest.mark.parametrize(
    ("old", "new", "program_too"),
    [
        ("COUNT += 1", "COUNT += 2", True),
        ("def helper(seen):\n    return PLAN", "def helper(seen):\n    return 5", True),
        ('PLAN = "Use port 8080"', 'PLAN = "Use port 8081"', False),
        ('made("It is done.")', 'made("It is not.")', False),
    ],
)
def test_an_edited_script_is_another_one(old, new, program_too):
    before, after = of()[1], of(SCRIPT.replace(old, new))[1]
    assert before.whole != after.whole
    assert (before.program != after.program) == program_too


def test_a_bound_script_is_what_it_was_bound_with():
    class Cast:
        def __init__(self, text):
            self.text = text

        def __call__(self, seen):
            return self.text

        def play(self, seen):
            return self.text + "!"

    def says(text, seen):
        return text

    scripts = (
        functools.partial(says, "a"),
        functools.partial(says, "b"),
        Cast("a"),
        Cast("a").play,
        len,
    )
    found = {fingerprint({"e": Scripted(each)}, {}, {}).whole for each in scripts}
    assert len(found) == len(scripts)


def test_engine_options_and_what_else_it_is_done_with_count():
    options = {"kind": "openai-chat", "model": "a"}
    base = fingerprint({"e": options}, {"limits": [5]}, {})
    for engines, about in (
        ({"e": options | {"model": "b"}}, {"limits": [5]}),
        ({"e": options | {"kind": "openai"}}, {"limits": [5]}),
        ({"e": options}, {"limits": [6]}),
    ):
        assert fingerprint(engines, about, {}).program != base.program
    later = fingerprint({"e": options}, {"limits": [5]}, {"templates": "v2"})
    assert (later.program, later.whole != base.whole) == (base.program, True)


def test_no_secret_is_in_it():
    def made(secret):
        options = {"kind": "openai-chat", "api_key": secret, "env": {"K": secret}}
        return fingerprint(
            {
                "named": options | {"base_url": f"http://me:{secret}@host"},
                "given": OpenAIChat(base_url=f"http://h/{secret}", api_key=secret),
            },
            {},
            {},
        )

    assert made("one") == made("two")
