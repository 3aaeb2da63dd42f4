"""The templates of the prompts: found, checked, and rendered: filled in, where one asks for names
alone, else compiled once and rendered in the sandbox.

Those of ours stand in `prompts/`. A workspace overrides any of them with a file of the same
name in its own `prompts/`, and adds some for roles of its own. A template is the operator's; what
others wrote comes in as a value and is never rendered as one.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from orchestrator.prompts.fence import inline, quoted
from orchestrator.prompts.plain import fill
from synapse.errors import USAGE, SynapseError
from synapse.log.accepted import WAITING_FILE, counts
from synapse.system.digest import sha256
from synapse.system.ownership import unfit

if TYPE_CHECKING:
    from orchestrator.prompts.sandbox import Sandbox

SUFFIX = ".md.j2"
MAX_BYTES = 1 << 16
_NAME = re.compile(r"[a-z0-9_][a-z0-9_-]{0,62}\.md\.j2")

Sources = dict[str, tuple[str, str]]  # name: path and text
Signature = tuple[tuple[str, int, int, int], ...]


class BrokenTemplate(SynapseError):
    """A template cannot be read or rendered. .file and .line say where."""

    exit_code = USAGE


class Templates:
    """The templates as a workspace has them; without one, as they come with the package. Those that
    git brought, and nobody accepted, are refused where they are `needed`, and left out elsewhere.
    """

    def __init__(self, root: str | None = None, needed: bool = False) -> None:
        self.folder = os.path.join(root, "prompts") if root else None
        self._needed = needed
        self._seen: Signature | None = None
        self._sources: Sources = {}
        self._version = ""

    @property
    def version(self) -> str:
        """Return the sha256 of all templates, ours and the workspace's: prompts of one version are
        made alike.
        """
        self._look()
        return self._version

    def has(self, name: str) -> bool:
        self._look()
        return name + SUFFIX in self._sources

    def path(self, name: str) -> str:
        """Return the path of the template of this name."""
        return self._sources[name + SUFFIX][0]

    def render(self, name: str, values: Mapping[str, object], without: Collection[str] = ()) -> str:
        """Return the text of the template of this name; the templates of `without` count as empty
        where it includes them. What it asks for and is not given is an error."""
        self._look()
        _, source = self._sources.get(name + SUFFIX, ("", "{{"))
        text = fill(source, values)
        if text is not None:
            return text
        try:
            return self._sandbox(without).text_of(name + SUFFIX, values)
        except Exception as error:
            # whatever a template does wrong, its author wants to know where
            raise self._broken(name + SUFFIX, error) from error

    def _sandbox(self, without: Collection[str]) -> Sandbox:
        files = {name + SUFFIX for name in without}
        sources = (
            (name, (path, "" if name in files else text))
            for name, (path, text) in self._sources.items()
        )
        return _sandbox(tuple(sources))

    def _look(self) -> None:
        """Read the workspace's templates again where one has changed."""
        signature = _signature(self.folder) if self.folder else ()
        if signature == self._seen:
            return
        sources = dict(_sources(_package())) | (
            dict(_sources(self.folder, os.path.dirname(self.folder), self._needed))
            if self.folder and signature
            else {}
        )
        self._version = _digest(sources)
        self._sources = sources
        self._seen = signature

    def _broken(self, name: str, error: Exception) -> BrokenTemplate:
        """Return the error with the file and the line at which it came about."""
        path, line = _place(error) or (self._sources.get(name, (name, ""))[0], 1)
        message = getattr(error, "message", None) or str(error) or type(error).__name__
        return BrokenTemplate(f"{path}, line {line}: {message}", file=path, line=line)


def version_at(root: str | None) -> str:
    """Return the version of the templates that a workspace has, without what renders them."""
    folder = os.path.join(root, "prompts") if root else None
    own = dict(_sources(folder, root or "")) if folder and _signature(folder) else {}
    return _digest(dict(_sources(_package())) | own)


def _digest(sources: Sources) -> str:
    entries = (f"{name} {len(text)}\n{text}" for name, (_, text) in sorted(sources.items()))
    return sha256(*(entry.encode() for entry in entries))


@lru_cache(8)
def _sandbox(known: tuple[tuple[str, tuple[str, str]], ...]) -> Sandbox:
    """Return the sandbox that renders these templates. Workspaces with the same templates share
    one: compiling takes longer than rendering.
    """
    from orchestrator.prompts.sandbox import Sandbox

    sources = dict(known)

    def load(name: str) -> tuple[str, str, None] | None:
        if name not in sources:
            return None
        path, text = sources[name]
        return text, path, None

    return Sandbox(load, {"quoted": quoted, "inline": inline})


def _package() -> str:
    """Return the folder of the templates that come with us: `prompts` at the top of a checkout; a
    wheel carries it as `orchestrator/_prompts`, for a name like that may be anybody's.
    """
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    packed = os.path.join(ours, "_prompts")
    if os.path.isdir(packed):
        return packed
    return os.path.join(os.path.dirname(ours), "prompts")


def _signature(folder: str) -> Signature:
    """Return a value that changes when a template does; an empty one where there are no
    templates.
    """
    try:
        with os.scandir(folder) as scan:
            files = [
                (item.name, item.stat(follow_symlinks=False))
                for item in scan
                if _NAME.fullmatch(item.name)
            ]
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(
        sorted((name, status.st_mtime_ns, status.st_size, status.st_ino) for name, status in files)
    )


def _sources(
    folder: str, root: str = "", needed: bool = False
) -> Iterator[tuple[str, tuple[str, str]]]:
    """Name, path and text of every template of a folder; `root` is the workspace whose owner they
    have to have, and in which they count.
    """
    for name in sorted(os.listdir(folder)):
        if _NAME.fullmatch(name):
            path = os.path.join(folder, name)
            text = _text(path, root or folder)
            if not root or counts(root, f"prompts/{name}", text.encode()):
                yield name, (path, text)
            elif needed:
                raise BrokenTemplate(f"{path}: {WAITING_FILE}", file=path, line=0)


def _text(path: str, owned: str) -> str:
    """Read a template: a regular file that only people whom the workspace trusts may have
    written.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if problem := _unfit(status, os.stat(owned).st_uid):
                raise BrokenTemplate(f"{path}: {problem}", file=path, line=0)
            return file.read().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BrokenTemplate(f"{path} cannot be read: {error}", file=path, line=0) from error


def _unfit(about: os.stat_result, owner: int) -> str | None:
    if not stat.S_ISREG(about.st_mode):
        return "a template has to be a regular file"
    if problem := unfit(about, owner):
        return problem
    return f"a template has at most {MAX_BYTES} bytes" if about.st_size > MAX_BYTES else None


def _place(error: Exception) -> tuple[str, int] | None:
    """Return the template and the line of an error: what it says itself, else the innermost
    template's frame.
    """
    if (line := getattr(error, "lineno", None)) is not None:
        return str(getattr(error, "filename", None)), int(line)
    position, trace = None, error.__traceback__
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        position = (path, trace.tb_lineno) if path.endswith(SUFFIX) else position
        trace = trace.tb_next
    return position
