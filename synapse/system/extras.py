"""The packages that the core does without: which extra of this distribution brings each, what is
said where one is missing, and what installed ones add.

Our own name is not given: it is not ours on the package index.
"""

from __future__ import annotations

from synapse.system.typed import Any

TEAM, SERVER, CLIENT = "team", "server", "client"
EXTRAS = {
    "a2a": "a2a",
    "anthropic": TEAM,
    "apscheduler": TEAM,
    "cryptography": "crypto",
    "fastapi": SERVER,
    "genai_prices": TEAM,
    "httpx2": CLIENT,
    "jinja2": TEAM,
    "openai": TEAM,
    "prometheus_client": SERVER,
    "uvicorn": SERVER,
    "websockets": CLIENT,
}


def installation(extra: str) -> str:
    """Return how an extra is installed."""
    return f"in the clone of Synapse, python3 -m pip install '.[{extra}]'"


def demand(package: str) -> None:
    """Raise ModuleNotFoundError where a package is not installed; import nothing."""
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)


def missing(error: ImportError, what: str = "this", extra: str = "") -> str | None:
    """Return what is said of a package that is not installed: what needs it, and how it is had.
    None where it is none of an extra."""
    package = (error.name or "").partition(".")[0]
    extra = extra or EXTRAS.get(package, "")
    if not extra:
        return None
    return f"{what} needs the package {package}: {installation(extra)}"


def added(group: str) -> list[Any]:
    """Return what the installed packages add under a group of entry points, by their names."""
    from importlib.metadata import entry_points

    points = sorted(entry_points(group=group), key=lambda point: point.name)
    return [point.load() for point in points]
