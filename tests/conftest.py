"""Fixtures that several tests share."""

from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser):
    parser.addoption("--golden", action="store_true", help="write the golden files anew instead of comparing")


@pytest.fixture
def golden(request):
    """Compares a text with the golden file of this name, byte for byte; `pytest --golden` writes it."""

    def check(name, text):
        path = GOLDEN / name
        if request.config.getoption("--golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        assert path.read_bytes().decode() == text

    return check
