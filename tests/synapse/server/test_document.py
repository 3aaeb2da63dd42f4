"""The OpenAPI document says what the server does: a generator of requests tries all of it."""

import os
import subprocess
import sys

import pytest
from fastapi.responses import JSONResponse

from synapse.server.limits import Limits

# What the library refuses of well-formed requests no schema can say; 422 is documented.
CHECKS = (*("--exclude-checks", "positive_data_acceptance"),)
ENDLESS = ("--exclude-path", "/v1/events")  # walked by the tests of live events
SHORT = ("--phases", "fuzzing,stateful", "--max-examples", "1")
WHOLE = ("--max-examples", "60")
RIGHTS = {
    "engineer": ("lead", {}),
    "read-only": ("eng", {"read_only": True}),
    "operator": ("operator", {}),
}


@pytest.fixture
def open_site(serve, tmp_path):
    """Return a function that serves without limits of rate, and asks for all that is documented."""

    def start(right, *options, extensions=()):
        agent, more = RIGHTS[right]
        site = serve(extensions=extensions, limits=Limits(rate=0, wrong=0))
        token = site.token(agent, **more)
        made = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "run"),
                f"{site.address}/openapi.json",
                *("-H", f"Authorization: Bearer {token}", "--no-color"),
                *("--seed", "1", "--continue-on-failure", *CHECKS, *ENDLESS, *options),
            ],
            capture_output=True,
            text=True,
            timeout=3_000,
            cwd=tmp_path,  # it keeps what it found where it runs
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )
        return made.returncode, made.stdout + made.stderr

    return start


@pytest.mark.parametrize("right", ["engineer", "operator"])
def test_every_answer_is_documented(open_site, right):
    """One request of each kind, and what leads from its answer to others; sixty in the soak."""
    status, told = open_site(right, *SHORT)
    assert status == 0, told[-6_000:]


@pytest.mark.soak
@pytest.mark.parametrize("right", RIGHTS)
def test_every_answer_is_documented_in_many_requests(open_site, right):
    status, told = open_site(right, *WHOLE)
    assert status == 0, told[-6_000:]


def test_the_check_finds_an_answer_that_is_not_documented(open_site):
    def plant(app):
        @app.get("/v1/planted")
        def planted() -> JSONResponse:
            return JSONResponse({}, 418)

    status, told = open_site(
        "operator", *SHORT, "--include-path", "/v1/planted", extensions=(plant,)
    )
    assert status == 1
    assert "Undocumented" in told


def test_every_route_has_its_token_and_its_problems(site):
    document = site.client().get("/openapi.json").json()
    for path, operations in document["paths"].items():
        for method, said in operations.items():
            where = f"{method} {path}"
            free = path in ("/healthz", "/readyz") or path.startswith("/v1/hooks/")
            assert ("security" in said) != free, where
            for code in ("403", "413", "422", "429", "503"):
                assert "application/problem+json" in said["responses"][code]["content"]
            if path.startswith("/v1/"):
                assert "401" in said["responses"], where
    assert "Problem" in document["components"]["schemas"]
