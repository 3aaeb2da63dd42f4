"""The files that the operator writes: `synapse.yaml` and `agents/*.yaml`, and the drop box of each
agent.

They are read here and never journalled: the store notices what changed in them. `FilesLog` is one
of these.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from synapse.errors import InvalidEntry, StoreError, SynapseError
from synapse.log.disk import sync_directory
from synapse.model.agents import Agent
from synapse.model.settings import PROTOCOL, Settings
from synapse.system import plain_files
from synapse.system.ownership import unfit
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.formats.keys import Stray


class OperatorFiles:
    """The declarations in one workspace directory."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)

    def refuse_newer(self) -> None:
        """Refuse a workspace of a newer protocol before anything in it is touched."""
        try:
            lines = [
                line
                for line in self.declared_raw("synapse.yaml").decode().split("\n")
                if line.startswith("protocol:")
            ]
        except (OSError, ValueError):
            return
        if lines and lines[0].partition(":")[2].strip() not in ("1", str(PROTOCOL)):
            from synapse.formats import declared

            declared.read_protocol("".join(f"{line}\n" for line in lines[:1]), "synapse.yaml")

    def agents(self) -> Iterable[Agent]:
        """Yield the agents as their files say now. A file that cannot be read is left out; `doctor`
        names it.
        """
        for path in self.declared():
            try:
                yield self.declaration(path)
            except (SynapseError, OSError):
                continue

    def declared(self) -> list[str]:
        try:
            names = sorted(os.listdir(os.path.join(self.root, "agents")))
        except FileNotFoundError:
            return []
        except OSError as error:
            # which is not the same: nobody is removed because a disk fails
            raise StoreError(f"agents/ cannot be read: {error}") from error
        return [
            f"agents/{name}"
            for name in names
            if name.endswith(".yaml") and not name.startswith(".")
        ]

    def declaration(self, path: str) -> Agent:
        from synapse.formats import declared

        try:
            text = self.declared_raw(path).decode()
        except UnicodeDecodeError as error:
            raise InvalidEntry(
                f"{path}: not UTF-8: byte {error.start} cannot be read", path=path
            ) from None
        return declared.parse_agent(text, path=path)

    def declared_raw(self, path: str) -> bytes:
        """Return the bytes of a file of the operator's; InvalidEntry where it is somebody else's.
        OSError where it is none, but a link, a pipe or the like.
        """
        owner = os.stat(self.root).st_uid
        with open(plain_files.open_file(os.path.join(self.root, path)), "rb") as file:
            if problem := unfit(os.fstat(file.fileno()), owner):
                raise InvalidEntry(f"{path} is not taken: {problem}", path=path)
            return file.read(1 << 16)

    def settings(self) -> Settings:
        return self.read_settings(None)[0]

    def read_settings(self, last: Settings | None) -> tuple[Settings, tuple[Stray, ...]]:
        """Return the settings as far as they can be read, and what is wrong with them: where one
        cannot be, that of the last good ones holds, else its default.
        """
        from synapse.formats import declared
        from synapse.formats.keys import Stray

        last = last or Settings()
        try:
            text = self.declared_raw("synapse.yaml").decode()
        except FileNotFoundError:
            return Settings(protocol=0), ()
        except InvalidEntry as error:
            return last, (Stray("", str(error).removeprefix("synapse.yaml is ")),)
        except UnicodeDecodeError as error:
            return last, (Stray("", f"not UTF-8: byte {error.start} cannot be read"),)
        except OSError as error:
            raise StoreError(f"synapse.yaml cannot be read: {error.strerror}") from error
        return declared.read_settings(text, "synapse.yaml", last)

    def signatures(self) -> dict[str, tuple[int, int, int]]:
        """Return modification time, size and inode of every file of the operator's: equal
        signatures, equal declarations. The inode is negative where the file is somebody else's.
        """
        signatures = {}
        owner = os.stat(self.root).st_uid
        for path in ("synapse.yaml", *self.declared()):
            try:
                status = os.stat(os.path.join(self.root, path))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise StoreError(f"{path} cannot be read: {error}") from error
            inode = -status.st_ino if unfit(status, owner) else status.st_ino
            signatures[path] = (status.st_mtime_ns, status.st_size, inode)
        return signatures

    def make_inbox(self, agent: Agent) -> None:
        """Make the inbox folder of an agent, owned by the agent's user where this process may set
        it.
        """
        inbox = os.path.join(self.root, "inbox", agent.id)
        changed = False
        for folder in (os.path.dirname(inbox), inbox):
            plain_files.make_folder(folder, 0o711)  # others' users pass through
        for name in ("tmp", "new"):
            folder = os.path.join(inbox, name)
            changed = changed or not os.path.isdir(folder)
            plain_files.make_folder(folder)
            if agent.user and os.geteuid() == 0:
                os.chown(folder, _uid(agent.user), -1, follow_symlinks=False)
        for folder in (inbox, os.path.dirname(inbox)) if changed else ():
            sync_directory(folder)


def _uid(user: str) -> int:
    """Return the number of a user of this machine, given by name or number; -1 for one that only
    another machine has.
    """
    import pwd

    try:
        return int(user) if user.isdigit() else pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):  # a name with a NUL in it is nobody's
        return -1
