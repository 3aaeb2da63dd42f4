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
    *("--include-path-regex", OURS, "--no-color", "--seed", "1"),
)
SHORT = ("--phases", "examples,fuzzing", "--max-examples", "3")
WHOLE = ("--phases", "examples,coverage,fuzzing", "--max-examples", "60")


@pytest.fixture
def open_site(serve, fill):
    """A server without limits of rate, with runs."""
    site = serve(limits=Limits(rate=0, wrong=0))
    fill(site)
    return site


def test_every_answer_is_documented(open_site, tmp_path):
    """Three requests of each kind by whom all is answered; sixty, and whom it is not, in the soak."""
    check(open_site, "operator", tmp_path, SHORT)


@pytest.mark.soak
@pytest.mark.parametrize("agent", ["operator", "lead"])
def test_every_answer_is_documented_in_many_requests(open_site, agent, tmp_path):
    check(open_site, agent, tmp_path, WHOLE)


def check(site, agent, tmp_path, how):
    token = site.token(agent)
    line = [sys.executable, "-m", "schemathesis.cli", "run"]
    line += [f"{site.address}/openapi.json", "-H", f"Authorization: Bearer {token}"]
    made = subprocess.run(
        [*line, *OPTIONS, *how],
        capture_output=True,
        text=True,
        timeout=3_000,
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        check=False,
    )
    told = made.stdout + made.stderr
    assert made.returncode == 0, told[-6_000:]
    assert "Selected: 8" in told, told[-2_000:]
