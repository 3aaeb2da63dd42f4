"""What a workspace's own files want to do beyond it: start a program, import a module, send text or
a key to an address, write elsewhere, delete for good. Each is one line that a person can read and
trust.

The lines follow from the settings alone; nothing is resolved, opened or imported. A line says all
that decides what would happen, so that any change of it is another line. `trust.decisions` asks the
person. `keys` says which key can ask for what.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping

from synapse.errors import InvalidEntry
from synapse.formats.keys import DELETE, IMPORT, RECEIVE, SEND, START, WRITE
from synapse.model.agents import OPERATOR
from synapse.model.settings import Semantic, Settings
from synapse.system.typed import Any, NamedTuple

SETTINGS_FILE, TEAM_FILE = "synapse.yaml", "team.yaml"

# Engines that send prompts to an address; the variables whose key the SDK adds by itself.
PROVIDERS = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "openai-chat": "OPENAI_API_KEY",
    "a2a": "A2A_TOKEN",
}
# Options of an engine that decide nothing but how much, how long, and which of its provider's
# models.
PLAIN_OPTIONS = frozenset("model max_retries timeout grace limit report".split())
PLAIN_PERMISSIONS = ("own", "memory")
# The variables that an embedder may be given as its key, beside those of the person's own naming.
KEYS = ("OPENAI_API_KEY",)
OWN_KEYS = "SYNAPSE_KEY_"
# records from one signed checkpoint to the next, where nothing else is said
EVERY = 100
EXAMPLE = "orchestrator.example_team:"  # what `orchestrator init` writes: part of this software

_URLS = {"ollama": "http://127.0.0.1:11434", "openai": "https://api.openai.com/v1"}


class Want(NamedTuple):
    """One thing that a workspace asks for. `never`: why no person can trust it. `url`: the address
    that is to be called.
    """

    kind: str
    what: str
    file: str
    key: str
    url: str = ""
    never: str = ""

    @property
    def line(self) -> str:
        location = f"{_name(self.file)}: {_name(self.key)}"
        return f"{self.kind}: {self.what} ({location})"


def of_settings(settings: Settings, root: str) -> Iterator[Want]:
    """Yield all that synapse.yaml asks for."""
    blocks = dict(settings.other)
    wants = [
        of_semantic(settings.semantic),
        of_mirror(blocks.get("mirror"), root),
        of_backup(blocks.get("backup"), root),
        of_retention(blocks.get("retention")),
        of_checkpoints(blocks.get("checkpoints"), root),
        of_consolidation(blocks.get("consolidation")),
    ]
    engines = blocks.get("engines")
    if isinstance(engines, Mapping):
        wants += [of_engine(engines, str(name)) for name in engines]
    for block, ask in _BLOCKS:
        declared = blocks.get(block)
        if isinstance(declared, Mapping):
            wants += [ask(str(name), declared[name], root) for name in declared]
    yield from (want for want in wants if want is not None)


def of_semantic(chosen: Semantic) -> Want | None:
    """Return where the texts of entries would be sent to be embedded; None where they stay."""
    if chosen.embedder not in _URLS:
        return None
    url = chosen.url or _URLS[chosen.embedder]
    text = f"entries and questions to {_shown(url)}"
    if chosen.key:
        text += f", with the key in {_shown(chosen.key)}"
    return Want(SEND, text, SETTINGS_FILE, "semantic", url, _bad_key(chosen.key))


def _bad_key(name: str | None) -> str:
    if not name or name in KEYS or (name.startswith(OWN_KEYS) and name.isidentifier()):
        return ""
    return (
        f"key names {_shown(name)}, and a server of embeddings is given no other key than"
        f" {', '.join(KEYS)} or one of a name that begins with {OWN_KEYS}"
    )


def of_mirror(declared: object, root: str) -> Want | None:
    """Return the file outside of the root that holds all mail."""
    path = declared.get("synapse_json") if isinstance(declared, Mapping) else None
    return None if path is None else _outside(root, path, "all mail", "mirror.synapse_json")


def of_backup(declared: object, root: str) -> Want | None:
    """Return the folder outside of the root that snapshots go to."""
    path = declared.get("dir") if isinstance(declared, Mapping) else None
    return None if path is None else _outside(root, path, "snapshots", "backup.dir")


def of_retention(declared: object) -> Want | None:
    """Return which files a night would delete for good; None where all are kept."""
    span = declared.get("runs") if isinstance(declared, Mapping) else None
    if span is None:
        return None
    text = f"steps, prompts and receipts of runs that ended longer ago than {_shown(span)}"
    return Want(DELETE, text, SETTINGS_FILE, "retention.runs")


def of_checkpoints(declared: object, root: str) -> Want | None:
    """Return the folder outside of the root that signed checkpoints go to."""
    path = declared.get("copy") if isinstance(declared, Mapping) else None
    if path is None:
        return None
    return _outside(root, path, "signed checkpoints", "checkpoints.copy")


def place_of_checkpoints(declared: object, root: str) -> str | None:
    """Return that folder as a whole path; None where none is named."""
    path = declared.get("copy") if isinstance(declared, Mapping) else None
    if path is None:
        return None
    return os.path.realpath(os.path.join(root, os.path.expanduser(str(path))))


def _outside(root: str, path: object, what: str, key: str) -> Want | None:
    target = os.path.realpath(os.path.join(root, os.path.expanduser(str(path))))
    origin = os.path.realpath(root)
    if target.startswith(origin.rstrip(os.sep) + os.sep):
        return None
    return Want(WRITE, f"{what} to {_shown(target)}", SETTINGS_FILE, key)


def of_consolidation(declared: object) -> Want | None:
    """Return the engine that a night would ask with the person's key, unasked."""
    block = declared.get("semantic") if isinstance(declared, Mapping) else None
    if not isinstance(block, Mapping):
        return None
    return Want(
        SEND,
        f"entries every night to the engine {_shown(block.get('engine'))}, at the expense of"
        f" its key: {_shown(block)}",
        SETTINGS_FILE,
        "consolidation.semantic",
    )


def of_engine(engines: object, name: str) -> Want | None:
    """Return what an engine that the settings declare asks for; None where it does nothing that
    the built-in one of its kind does not.
    """
    entry = engines.get(name) if isinstance(engines, Mapping) else None
    if not isinstance(entry, Mapping):
        return None
    kind, key = entry.get("kind"), f"engines.{name}"
    if ":" in str(kind):
        never = "a kind is one of the list; a program gives an engine of its own to Supervisor"
        return Want(IMPORT, f"{_shown(kind)} as an engine", SETTINGS_FILE, key, "", never)
    special = {option: value for option, value in entry.items() if not _is_plain(option, value)}
    if not special:
        return None
    url = str(special.get("base_url") or special.get("url") or "")
    if kind not in PROVIDERS:
        text = f"the engine {_shown(name)} of the kind {_shown(kind)} with {_shown(entry)}"
        return Want(START, text, SETTINGS_FILE, key)
    if "api_key" in special:
        entry = {**entry, "api_key": "(as in the file)"}
        secret = " and the key in the file"
    else:
        secret = f" and the key in {PROVIDERS[str(kind)]}"
    server = _shown(url) if url else "its provider"
    text = f"prompts{secret} to {server}, by the engine {_shown(name)}: {_shown(entry)}"
    return Want(SEND, text, SETTINGS_FILE, key, url)


def _is_plain(option: object, value: object) -> bool:
    if option == "kind" or option in PLAIN_OPTIONS:
        return True
    return option == "permissions" and value in PLAIN_PERMISSIONS


def of_webhook(name: str, declared: object, root: str) -> Want | None:
    """Return where entries would be sent as they come, and which."""
    if not isinstance(declared, Mapping) or not declared.get("url"):
        return None
    url, reader = str(declared["url"]), declared.get("as")
    content = f"what {_shown(reader)} may see" if reader else "public entries"
    if reader == OPERATOR:
        content = "public entries, and what agents ask the operator,"
    never = bad_secret(declared.get("secret"), root)
    fields = _shown(_without_secret(declared, never))
    text = f"{content} to {_shown(url)}, by the webhook {_name(name)}: {fields}"
    return Want(SEND, text, SETTINGS_FILE, f"webhooks.{name}", url, never)


def of_hook(name: str, declared: object, root: str) -> Want | None:
    """Return what somebody outside who knows a secret would write, and as whom."""
    if not isinstance(declared, Mapping) or not declared.get("agent"):
        return None
    never = bad_secret(declared.get("secret"), root)
    agent, fields = _shown(declared["agent"]), _shown(_without_secret(declared, never))
    text = f"texts from outside as {agent}, by the hook {_name(name)}: {fields}"
    return Want(RECEIVE, text, SETTINGS_FILE, f"hooks.{name}", "", never)


def of_partner(name: str, declared: object, root: str = "") -> Want | None:
    """Return what another organisation, which has a key, would write here and be given."""
    if not isinstance(declared, Mapping) or not declared.get("agent"):
        return None
    agent, fields = _shown(declared["agent"]), _shown(declared)
    text = f"texts of the partner {_name(name)} as {agent}, whose reading it is given: {fields}"
    return Want(RECEIVE, text, SETTINGS_FILE, f"partners.{name}")


_BLOCKS = (("webhooks", of_webhook), ("hooks", of_hook), ("partners", of_partner))


def _without_secret(declared: Mapping[Any, Any], never: str) -> Mapping[Any, Any]:
    """Return the fields to show: what stands for the secret may be the secret, where it is not as
    it should be.
    """
    return {**declared, "secret": "(as in the file)"} if never else declared


def bad_secret(declared: object, root: str) -> str:
    """Return why a secret may not be named so, empty where it may: it stands in a variable of the
    person's own naming, or in a file outside of the workspace.
    """
    names = declared if isinstance(declared, list) else [declared]
    for name in map(str, names):
        if is_path(name):
            if _outside(root, name, "", "") is None:
                return "its secret lies in the workspace: keep it outside of it"
        elif not (name.startswith(OWN_KEYS) and name.isidentifier()):
            return (
                "secret is the name of a variable that begins with"
                f" {OWN_KEYS}, or the path of a file outside of the workspace,"
                " and never the secret itself"
            )
    return ""


def is_path(secret: str) -> bool:
    """Return whether what names a secret is a path, and not a variable."""
    return "/" in secret and not secret.startswith("whsec_")


def of_script(script: object, file: str = TEAM_FILE) -> Want | None:
    """Return the module that a team's file has imported."""
    if script is None or str(script).startswith(EXAMPLE):
        return None
    return Want(IMPORT, f"{_shown(script)}, and call it", file, "script")


def of_team(text: str) -> Iterator[Want]:
    """Yield what a team's file asks for; nothing where it cannot be read."""
    if not text:
        return
    from synapse.system import yaml

    try:
        fields: Any = yaml.load(text, depth=3, typed=True)
    except InvalidEntry:
        return
    want = of_script(fields.get("script")) if isinstance(fields, Mapping) else None
    if want is not None:
        yield want


def _name(text: str) -> str:
    """Return a name of a file or a key as it is where it is a usual one, else quoted."""
    usual = (
        text.isascii() and text.replace("/", "").replace("-", "").replace(".", "").isidentifier()
    )
    return text if usual else _shown(text)


def _shown(value: object) -> str:
    """Return a value of the file on one line, in characters that no terminal acts on."""
    return json.dumps(value, sort_keys=True, default=str)
