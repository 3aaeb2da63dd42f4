"""The values of an installation: where it goes, and the changes that it makes to files and clients.

Nothing here reads or writes a file. The modules of the clients return these from `plan(target)`,
`merge` carries them out on bytes, and `apply` on files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from synapse.system.typed import Any, NamedTuple, TypeAlias


class Target(NamedTuple):
    """Where a client's plugin is installed.

    `root` is the workspace, None for an installation of the user's in no project: the hook then
    finds the workspace by the folder that the client runs in. `project` is the folder that the
    client is started in (the top of the work tree). `folder` is where the plugin's own files go.
    """

    client: str
    root: str | None
    project: str
    user: bool
    python: str
    package: str  # the folder orchestrator/plugin
    home: str
    folder: str
    lead: str = "lead"
    env: Mapping[str, str] = {}

    @property
    def hook(self) -> str:
        """Return the program that the client's hooks start, a small sh script of the plugin's."""
        return os.path.join(self.folder, "bin", "hook")

    @property
    def mcp(self) -> str:
        """Return the program that is the client's MCP server over stdio."""
        return os.path.join(self.folder, "bin", "mcp")

    @property
    def watch(self) -> str:
        """Return the program that waits for what wakes a session."""
        return os.path.join(self.folder, "bin", "watch")

    def config(self, variable: str, default: str) -> str:
        """Return the client's configuration folder: that of a variable of the environment, else a
        folder below the user's home."""
        return self.env.get(variable) or os.path.join(self.home, default)


class File(NamedTuple):
    """A file that is ours from its first byte to its last, as is the folder that it is `within`."""

    path: str
    text: str
    mode: int = 0o644
    within: str = ""


class Json(NamedTuple):
    """Members of a JSON, JSONC or JSON5 file that others write too.

    Objects are merged into objects, items of lists are added behind the user's. `mark` is a text
    that stands in every one of our members, in a string or in its name (the plugin's folder): by it
    those of another version are known, and those that somebody edited. A file that is `shared` by
    our installations alone goes with the last of them."""

    path: str
    members: Mapping[str, Any]
    mark: str
    mode: int = 0o644
    shared: bool = False


class Block(NamedTuple):
    """Lines of our own, between two marked lines at the end of a file that others write too.

    `style` is `toml` (the text is tables only: `[mcp_servers.synapse]`, `[[hooks.Stop]]`),
    `markdown`, or `lines` (comments begin with `#`). `by` is the verb whose block it is: a file may
    hold one of each."""

    path: str
    text: str
    style: str = "toml"
    mode: int = 0o644
    by: str = "install"


class Mode(NamedTuple):
    """The permission bits of a file that is there."""

    path: str
    mode: int


class Command(NamedTuple):
    """A command of the client's own, run after all files were written; `undo` is run before any
    of them is taken back, with `late` after all of them were: it then only tidies up, and may fail.
    What was done is not done again while nothing of the plan changed."""

    do: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    cwd: str | None = None
    env: Mapping[str, str] = {}
    # the program without which it is left out; by default the first word
    needs: str = ""
    late: bool = False


Change: TypeAlias = File | Json | Block | Mode | Command
