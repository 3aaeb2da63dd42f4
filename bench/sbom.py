"""A list of what the product is made of, as CycloneDX 1.6: each package that it asks for with any
extra, at the version and with the hashes that `requirements.lock` pins.

    python -m bench.sbom FOLDER

writes it there, and SHA256SUMS of all files of the folder. The tools of developers are left out.
`make wheel` calls it, and `make release` that.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterable
from hashlib import sha256
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
NAME = "synapse-orchestrator"
SUMS = "SHA256SUMS"


class Pin(NamedTuple):
    """A package of the lock: its version, and the sha256 of each of its files."""

    version: str
    hashes: list[str]


def pins(lock: str) -> dict[str, Pin]:
    """Return the packages of a lock by their names."""
    form = r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)(.*(?:\n    --hash=.*)*)"
    rows = re.findall(form, lock, re.MULTILINE)
    return {
        canonicalize_name(name): Pin(version, re.findall(r"sha256:([0-9a-f]{64})", rest))
        for name, version, rest in rows
    }


def project() -> dict[str, Any]:
    """Return what pyproject.toml says of the product."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project: dict[str, Any] = tomllib.loads(text)["project"]
    return project


def asked(project: dict[str, Any]) -> list[str]:
    """Return what the product asks for, with every extra of it."""
    return [*project["dependencies"], *chain(*project["optional-dependencies"].values())]


def needed(texts: Iterable[str], extras: tuple[str, ...]) -> set[tuple[str, tuple[str, ...]]]:
    """Return the packages that requirements ask for on this machine, with the extras of each."""
    requirements = [Requirement(text) for text in texts]
    return {
        (canonicalize_name(each.name), tuple(sorted(each.extras)))
        for each in requirements
        if each.name != NAME
        and (
            each.marker is None
            or any(each.marker.evaluate({"extra": extra}) for extra in ("", *extras))
        )
    }


def graph() -> dict[str, set[str]]:
    """Return what each package asks for, of all that are needed."""
    edges = {NAME: {name for name, _ in needed(asked(project()), ())}}
    done: set[tuple[str, tuple[str, ...]]] = {(NAME, ())}
    waiting = needed(asked(project()), ())
    while waiting - done:
        package = min(waiting - done)
        done.add(package)
        try:
            children = needed(metadata.requires(package[0]) or (), package[1])
        except metadata.PackageNotFoundError:
            continue  # an extra that is not installed here; the lock may have it
        edges.setdefault(package[0], set()).update(name for name, _ in children)
        waiting |= children
    return edges


def bill(lock: str, version: str) -> dict[str, Any]:
    """Return the list. The same lock gives the same one."""
    pinned, edges = pins(lock), graph()
    names = sorted(name for name in edges if name in pinned)
    refs = {name: f"pkg:pypi/{name}@{pinned[name].version}" for name in names}
    own = f"pkg:pypi/{NAME}@{version}"
    components = [
        {
            "type": "library",
            "bom-ref": refs[name],
            "purl": refs[name],
            "name": name,
            "version": pinned[name].version,
            "hashes": [{"alg": "SHA-256", "content": each} for each in pinned[name].hashes],
        }
        for name in names
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, own + lock)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": NAME,
                "version": version,
                "licenses": [{"license": {"id": "MIT"}}],
            }
        },
        "components": components,
        "dependencies": [
            {
                "ref": own if name == NAME else refs[name],
                "dependsOn": sorted(refs[child] for child in edges[name] if child in refs),
            }
            for name in (NAME, *names)
        ],
    }


def write(folder: Path) -> None:
    """Write the list into a folder, and the digests of all files there."""
    version = project()["version"]
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    text = json.dumps(bill(lock, version), indent=1) + "\n"
    (folder / f"{NAME}-{version}.cdx.json").write_text(text, encoding="utf-8")
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != SUMS)
    sums = [f"{sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / SUMS).write_text("".join(sums), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
