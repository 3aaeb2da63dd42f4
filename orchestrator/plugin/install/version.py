"""The version of the installed distribution, of which a record and the plugins' manifests speak."""

from __future__ import annotations


def version() -> str:
    """Return the version of this software, `0` where it runs without having been installed."""
    from importlib import metadata

    try:
        return metadata.version("synapse-orchestrator")
    except metadata.PackageNotFoundError:
        return "0"
