"""The folders and the settings of a new workspace, as they come to the disk. Called by
`synapse.init`.
"""

from __future__ import annotations

import os

from synapse.errors import Conflict
from synapse.log.disk import make_directory, sync_directory, write_file
from synapse.log.operator_files import OperatorFiles
from synapse.model.namespace import is_component
from synapse.system import plain_files
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.log.postgres.address import Address

_FOLDERS = (
    "agents",
    "entries",
    "messages",
    "knowledge",
    "inbox",
    "staging",
    "quarantine",
    "views",
    "archive",
    "changelog",
    "bin",
    ".index",
)
# What lies in these is for agents, and not for other users of the machine. Through `inbox`, users
# who are mapped to an agent come to their own.
_MODES = dict.fromkeys(
    "entries messages knowledge staging quarantine views archive changelog .index".split(), 0o700
)
_MODES["inbox"] = 0o711
_SETTINGS = """\
# The settings of this workspace. Delete a line to have its default.
protocol: 1
name: {name}
# How long entries live that do not say it themselves, per namespace.
ttl:
  blockers/*: 7d
  api/*: 30d
  decisions/*: 90d
  team/*: 14d
  projects/*: 30d
  plans/*: 90d
# roles: authority as registered. flat: 60 for all but the cto.
authority: roles
# Entries of agents with review_required wait this long, and so many at most.
staging:
  ttl: 7d
  limit: 100
# Personal data in texts that nobody marked: mask it, refuse the text, or off.
# privacy: {{personal: mask}}
"""


def make(root: str, database: Address | None) -> bytes:
    """Make the folders and the settings, and put them on the disk, their names too. Return the
    settings, if they are new or a person named the database that is in them.
    """
    make_directory(root, 0o755)
    for folder in _FOLDERS:
        plain_files.make_folder(os.path.join(root, folder), _MODES.get(folder, 0o755))
    _share(root)
    path, settings = os.path.join(root, "synapse.yaml"), b""
    if not os.path.exists(path):
        name = os.path.basename(root).lower()
        name = name if is_component(name) else "shared-memory"
        settings = _SETTINGS.format(name=name).encode()
        if database is not None:
            settings += f"# Where the records are.\nlog: {database.public}\n".encode()
        write_file(path, settings, 0o644)
    elif database is not None:
        settings = _demand_log(root, database)
    sync_directory(root)
    return settings


def _demand_log(root: str, database: Address) -> bytes:
    """Return the settings that are there; Conflict unless they name this database."""
    settings = OperatorFiles(root).declared_raw("synapse.yaml")
    line = f"log: {database.public}"
    if line not in settings.decode(errors="replace").split("\n"):
        raise Conflict(f"{root}/synapse.yaml does not say `{line}`: write it there, or begin anew")
    return settings


def _share(root: str) -> None:
    """Tell git, where the root lies in a work tree of it, what to leave out and how to merge the
    rest.
    """
    from synapse.log import git

    if git.is_work_tree(root):
        for name, text in ((".gitignore", git.IGNORE), (".gitattributes", git.ATTRIBUTES)):
            path = os.path.join(root, name)
            if not os.path.lexists(path):
                write_file(path, text.encode())
