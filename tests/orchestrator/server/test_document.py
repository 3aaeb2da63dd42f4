"""The OpenAPI document says what the routes of runs do: a generator of requests tries all of it."""

import os
import subprocess
import sys

import pytest

from synapse.server.limits import Limits

OURS = r"^/v1/(runs|tree|stats|debts|wakes|limits)"
# What the library refuses of well-formed requests no schema can say; 422 is documented.
OPTIONS = (
    *("--exclude-checks", "positive_data_acceptance", "--continue-on-failure"),
    *("--phases", "examples,coverage,fuzzing", "--max-examples", "12", "--seed", "1"),
    *("--include-path-regex", OURS, "--no-color"),
)


@pytest.mark.parametrize("agent", ["operator", "lead"])
def test_every_answer_is_documented(serve, fill, agent, tmp_path):
    site = serve(limits=Limits(rate=0, wrong=0))
    fill(site)
    token = site.token(agent)
    line = [sys.executable, "-m", "schemathesis.cli", "run"]
    line += [f"{site.address}/openapi.json", "-H", f"Authorization: Bearer {token}"]
    made = subprocess.run(
        [*line, *OPTIONS],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        check=False,
    )
    told = made.stdout + made.stderr
    assert made.returncode == 0, told[-6_000:]
    assert "Selected: 8" in told, told[-2_000:]
