"""The requirements of a run: its engine, with the key, host and program that this needs, and the
tools of its user.

They are recorded when a run begins, and compared before a supervisor recovers it. They hold names
and digests, never the value of a key. What a process has comes in as an `Offer`; nothing here reads
the memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from orchestrator.engines.protocol import ENGINES, Engine, Tool
from synapse.errors import InvalidEntry
from synapse.system.digest import sha256

Fields = Mapping[str, Any]
Signatures = Mapping[str, str]  # such as {"slow(page)": digest}
Lacks = Callable[[Fields], Sequence[str]]

# The variables that may hold the key: the first that is set does. Below, the one that names a host.
KEYS: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "openai": ("OPENAI_API_KEY",),
    "openai-chat": ("OPENAI_API_KEY",),
    "claude-code": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    "codex": ("CODEX_API_KEY", "OPENAI_API_KEY"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "openclaw": ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
}
HOSTS = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "claude-code": "ANTHROPIC_BASE_URL",
    "openai": "OPENAI_BASE_URL",
    "openai-chat": "OPENAI_BASE_URL",
    "codex": "OPENAI_BASE_URL",
}
PROGRAMS = {"claude-code": "claude", "codex": "codex", "gemini": "gemini", "openclaw": "openclaw"}
VERSION = 12  # digits of a version of the templates
UNRECORDED = "what it was begun with, which an older version did not record"


class Offer(NamedTuple):
    """What a process has. `given` are the engines that its user made; `declared` gives the kind and
    the options of any other name; `templates` is the version of its prompts, empty where that is no
    matter.
    """

    declared: Callable[[str], tuple[str, Mapping[str, Any]]]
    env: Mapping[str, str]
    given: Mapping[str, Engine]
    tools: Signatures
    templates: str = ""


class _Engine(NamedTuple):
    """One engine as this process has it. `type` is the class of one that was given."""

    kind: str
    options: Mapping[str, Any]
    type: str | None = None

    @property
    def own_key(self) -> bool:
        """Return whether the engine has its key from its options, and none from the environment."""
        if self.options.get("api_key"):
            return True
        return any(name in self.env for name in KEYS.get(self.kind, ()))

    @property
    def env(self) -> Mapping[str, str]:
        return self.options.get("env") or {}

    def key(self, env: Mapping[str, str]) -> str | None:
        """Return the variable that its key comes from; None where it has its own, or none is
        set.
        """
        names = () if self.own_key else KEYS.get(self.kind, ())
        return next((name for name in names if env.get(name)), None)

    def host(self, env: Mapping[str, str]) -> str | None:
        """Return the host that is named instead of the provider's; without port, path and user."""
        url = self.options.get("base_url") or {**env, **self.env}.get(HOSTS.get(self.kind, ""))
        if not url or self.type is not None:
            return None
        from urllib.parse import urlsplit

        try:
            return urlsplit(str(url)).hostname
        except ValueError:
            return None  # what is no address fails at the first call

    def program(self) -> str | None:
        """Return the program that a coding client is."""
        command = self.options.get("command") or PROGRAMS.get(self.kind, "")
        words = command.split() if isinstance(command, str) else list(command)
        return str(words[0]) if words else None

    def has(self, program: str, env: Mapping[str, str]) -> bool:
        """Return whether a client's program is beside our own scripts or on the PATH, as its engine
        looks for it."""
        import shutil
        import sysconfig

        path = self.env.get("PATH") or env.get("PATH", os.defpath)
        path = os.pathsep.join((sysconfig.get_path("scripts"), path))
        return shutil.which(program, path=path) is not None


def record(names: Iterable[str], offer: Offer, *, tools: bool) -> dict[str, Any]:
    """Return what a run on these engines needs, as its record has it."""
    engines = {name: _described(_engine(name, offer), offer.env) for name in dict.fromkeys(names)}
    needed: dict[str, Any] = {
        "engines": engines,
        "tools": dict(sorted(offer.tools.items())) if tools else {},
    }
    needed["templates"] = offer.templates[:VERSION]
    return {key: value for key, value in needed.items() if value}


def lacking(needs: Fields | None, offer: Offer) -> tuple[str, ...]:
    """Return what a run needs that this process does not have, a few words for each."""
    if needs is None:
        return (UNRECORDED,)
    missing = [*_lacking_tools(needs.get("tools", {}), offer.tools)]
    for name, engine in needs.get("engines", {}).items():
        missing += _lacking_engine(name, engine, offer)
    version = needs.get("templates")
    if version and offer.templates and version != offer.templates[:VERSION]:
        missing.append(f"prompt templates of version {version} (here: {offer.templates[:VERSION]})")
    return tuple(missing)


def waiting(orphans: Sequence[Fields], lacks: Lacks) -> dict[str, str]:
    """Return which of these runs, whose supervisor is gone, cannot go on here, and what each waits
    for. Whoever is above such a run waits with it: it could do nothing but wait."""
    parents = {str(run["run"]): run.get("parent") for run in orphans}
    missing = {id: ", ".join(lacks(run)) for id, run in zip(parents, orphans, strict=True)}
    reasons = {id: f"waits for its own program: {why}" for id, why in missing.items() if why}
    for id in list(reasons):
        parent = parents[id]
        while parent in parents and parent not in reasons:
            reasons[parent] = f"waits for {id}, which {reasons[id]}"
            parent = parents[parent]
    return reasons


def signatures(tools: Iterable[Tool]) -> dict[str, str]:
    """Return the tools by name and parameters, each with a digest of its name and schema."""
    result = {}
    for tool in tools:
        parameters = ", ".join(tool.schema.get("properties", ()))
        text = json.dumps(
            [tool.name, tool.schema], sort_keys=True, separators=(",", ":"), default=str
        )
        digest = sha256(text.encode("utf-8", "surrogatepass"))[:16]
        result[f"{tool.name}({parameters})"] = digest
    return result


def parameters(signatures: Iterable[str]) -> dict[str, list[str]]:
    """Return the parameters of tools by their names, as their signatures have them."""
    pairs = (signature.removesuffix(")").partition("(") for signature in signatures)
    return {name: listed.split(", ") if listed else [] for name, _, listed in pairs}


def tool_name(signature: str) -> str:
    return signature.partition("(")[0]


# -- engines -----------------------------------------------------------------------------------


def _engine(name: str, offer: Offer) -> _Engine:
    engine = offer.given.get(name)
    if engine is None:
        return _Engine(*offer.declared(name))
    options = {
        "env": getattr(engine, "env", None),
        "command": getattr(engine, "command", None),
        "api_key": getattr(engine, "own_key", True),
    }
    return _Engine(engine.name, options, type(engine).__qualname__)


def _described(engine: _Engine, env: Mapping[str, str]) -> dict[str, Any]:
    """Return an engine as it is recorded: what it has of these."""
    program = engine.program()
    description = {
        "kind": engine.type or engine.kind,
        "given": engine.type is not None,
        "host": engine.host(env),
        "program": program if program and engine.has(program, env) else None,
        "key": engine.key(env),
    }
    return {key: value for key, value in description.items() if value}


def _lacking_engine(name: str, about: Fields, offer: Offer) -> Iterator[str]:
    if about.get("given") and name not in offer.given:
        yield f"engine {name}, which its program made"
        return
    try:
        engine = _engine(name, offer)
    except InvalidEntry:
        yield f"engine {name}"
        return
    if about.get("kind") not in _kinds(engine, bool(about.get("given"))):
        yield f"engine {name} of the kind {about.get('kind')}"
        return
    if engine.type is None and engine.host(offer.env) != about.get("host"):
        yield f"engine {name} at {about.get('host', 'the address of its provider')}"
    if about.get("program") and not engine.has(about["program"], offer.env):
        yield f"program {about['program']}"
    if about.get("key") and not engine.own_key and engine.key(offer.env) is None:
        yield f"key {about['key']}"


def _kinds(engine: _Engine, given: bool) -> tuple[str | None, ...]:
    """Return the kinds that an engine passes for: one that was given here stands in for one of its
    class that was begun by name."""
    if given or engine.type is None:
        return (engine.type or engine.kind,)
    kinds = (kind for kind, module in ENGINES.items() if module.partition(":")[2] == engine.type)
    return (engine.kind, *kinds)


# -- tools -------------------------------------------------------------------------------------


def _lacking_tools(needed: Signatures, here: Signatures) -> Iterator[str]:
    names = {tool_name(signature): signature for signature in here}
    for signature, digest in needed.items():
        current = names.get(tool_name(signature))
        if current is None:
            yield f"tool {signature}"
        elif here[current] != digest:
            yield f"tool {signature}" + (
                f", not {current}" if current != signature else " with the types that it had"
            )
