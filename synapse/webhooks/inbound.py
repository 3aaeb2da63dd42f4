"""Texts that come in from outside: a delivery that somebody signed becomes an entry of one agent.

`entry_from` is pure: what a delivery says, who proved it, and under which key it is written once.
`receive` does all that a route of the server has to do. What is wrong carries the status of HTTP
that says so (`error.details["status"]`), and words that may be told to anybody.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping, Sequence

from synapse.agent_memory import AgentMemory
from synapse.core import Memory
from synapse.errors import Forbidden, InvalidEntry, NotFound, SynapseError
from synapse.formats.fields import FieldReader
from synapse.formats.wants import Want, bad_secret, of_hook
from synapse.model import namespace as ns
from synapse.model.agents import RESERVED
from synapse.model.entry import PRIORITIES, Draft, Entry
from synapse.model.settings import Settings
from synapse.system.digest import sha256
from synapse.system.typed import Any, NamedTuple
from synapse.trust import decisions
from synapse.webhooks import signatures, template
from synapse.webhooks.secrets import read_secret
from synapse.webhooks.template import Parts

BLOCK = "hooks"
PROOFS = ("standard", "github", "token")
LARGEST = 256 << 10  # bytes of a delivery
MOST_TAGS, LONGEST_LINE = 16, 200


class Hook(NamedTuple):
    """One hook: who proves a delivery how, and the entry that it becomes."""

    name: str
    verify: str
    secrets: tuple[str, ...]
    agent: str
    namespace: str
    body: Parts
    priority: Parts
    topic: Parts
    tags: tuple[Parts, ...]
    want: Want


class Received(NamedTuple):
    """A delivery as an entry to be written, and the key under which it is written once; None where
    nothing tells it from another like it.
    """

    draft: Draft
    once: str | None


def receive(memory: Memory, name: str, headers: Mapping[str, str], body: bytes) -> Entry:
    """Write the delivery that came to a hook, and return its entry; the one that it became before
    where it comes again.
    """
    store = memory.store
    hook = _named(store.settings, store.root or "", name)
    try:
        decisions.demand(store.root, hook.want)
        secrets = [read_secret(source, store.root) for source in hook.secrets]
        if hook.verify == "standard":
            [signatures.key_of(secret) for secret in secrets]
    except SynapseError as error:  # its words are for who runs the workspace
        raise Forbidden(f"the hook {name} is not open", status=403) from error
    received = entry_from(hook, headers, body, secrets, store.clock() / 1_000_000)
    agent_memory = AgentMemory(store, hook.agent)
    agent_memory.access.outside = True
    return agent_memory.write(received.draft, once=received.once)


def entry_from(
    hook: Hook, headers: Mapping[str, str], body: bytes, secrets: Sequence[str], now: float
) -> Received:
    """Return what a delivery becomes. Forbidden where nobody proves it, InvalidEntry where it does
    not fit; `now` is in seconds.
    """
    if len(body) > LARGEST:
        raise InvalidEntry(
            f"a delivery has at most {LARGEST >> 10} KiB, and this one {len(body) >> 10}",
            status=413,
        )
    lower = {name.lower(): text for name, text in headers.items()}
    try:
        id = _PROOFS[hook.verify](secrets, lower, body, now)
    except Forbidden as error:
        raise Forbidden(str(error), status=401) from None
    try:
        data: Any = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidEntry("the delivery is not JSON", status=400) from None
    try:
        draft = _draft(hook, data)
    except InvalidEntry as error:
        raise InvalidEntry(str(error), status=422) from None
    key = f"{BLOCK}:{hook.name}:{sha256(id.encode())[:32]}" if id else None
    return Received(draft, key)


def declared(settings: Settings, root: str) -> tuple[dict[str, Hook], dict[str, str]]:
    """Return the hooks of a workspace by their names, and what is wrong with those that cannot
    be.
    """
    block: Any = dict(settings.other).get(BLOCK)
    if not isinstance(block, Mapping):
        problem = "write a block of `name: {secret: ..., agent: ...}` lines"
        return {}, {} if block is None else {BLOCK: problem}
    hooks, problems = {}, {}
    for name, fields in block.items():
        try:
            hooks[str(name)] = _hook(str(name), fields, root)
        except SynapseError as error:
            problems[str(name)] = str(error)
    return hooks, problems


# -- what a delivery becomes -----------------------------------------------------------------------


def _draft(hook: Hook, data: object) -> Draft:
    body = template.render(hook.body, data)
    if not body.strip():
        raise InvalidEntry("the delivery does not fit: nothing is in its text")
    priority = _line(hook.priority, data) or "info"
    if priority not in PRIORITIES:
        raise InvalidEntry(
            f"the delivery does not fit: its priority is not one of {', '.join(PRIORITIES)}"
        )
    tags = (_line(tag, data).replace(",", " ") for tag in hook.tags)
    return Draft(
        body,
        hook.namespace,
        hook.agent,
        priority,
        tags=tuple(dict.fromkeys(tag for tag in tags if tag)),
        topic=_line(hook.topic, data) or None,
    )


def _line(parts: Parts, data: object) -> str:
    """Return what a template makes, on one line."""
    text = "".join(c if c.isprintable() else " " for c in template.render(parts, data))
    return " ".join(text.split())[:LONGEST_LINE]


# -- who proves it ---------------------------------------------------------------------------------


def _standard(secrets: Sequence[str], headers: Mapping[str, str], body: bytes, now: float) -> str:
    keys = [signatures.key_of(secret) for secret in secrets]
    return signatures.verify(keys, headers, body, now)


def _github(secrets: Sequence[str], headers: Mapping[str, str], body: bytes, now: float) -> str:
    """Check the signature, and return it: the id of GitHub's own is not signed, so that who replays
    a delivery could choose another.
    """
    signature = headers.get("x-hub-signature-256", "").encode("utf-8", "surrogateescape")
    for secret in secrets:
        expected = b"sha256=" + hmac.digest(secret.encode(), body, "sha256").hex().encode()
        if hmac.compare_digest(expected, signature):
            return sha256(body)
    raise Forbidden("the signature is not this hook's, or missing")


def _token(secrets: Sequence[str], headers: Mapping[str, str], body: bytes, now: float) -> str:
    kind, _, token = headers.get("authorization", "").partition(" ")
    for secret in secrets:
        sent = token.strip().encode("utf-8", "surrogateescape")
        if kind.lower() == "bearer" and hmac.compare_digest(secret.encode(), sent):
            return headers.get("idempotency-key", "")[: signatures.ID_LENGTH]
    raise Forbidden("the token is not this hook's, or missing")


_PROOFS = dict(zip(PROOFS, (_standard, _github, _token), strict=True))


# -- what is declared ------------------------------------------------------------------------------


def _named(settings: Settings, root: str, name: str) -> Hook:
    hooks, _ = declared(settings, root)
    if name not in hooks:
        raise NotFound(f"there is no hook {name!a:.80}", id=name, status=404)
    return hooks[name]


def _hook(name: str, fields: Any, root: str) -> Hook:
    reader = FieldReader(fields, "", f"{BLOCK}.{name}: ")
    texts = {key: reader.text(key) or "" for key in ("verify", "agent", "namespace")}
    secrets, tags = reader.many("secret") or (), reader.many("tags") or ()
    reader.problems += [
        f"{reader.prefix}{text}" for text in _problems(name, texts, secrets, tags, root)
    ]
    body, priority, topic = (
        template.parse(reader.text(key) or "") for key in ("body", "priority", "topic")
    )
    if not body:
        reader.problems.append(f"{reader.prefix}body is missing")
    reader.finish()
    return Hook(
        name,
        texts["verify"],
        secrets,
        texts["agent"],
        texts["namespace"],
        body,
        priority,
        topic,
        tuple(template.parse(tag) for tag in tags),
        of_hook(name, fields, root) or Want("", "", "", ""),
    )


def _problems(
    name: str, texts: Mapping[str, str], secrets: Sequence[str], tags: Sequence[str], root: str
) -> list[str]:
    problems = []
    if not ns.is_component(name):
        problems.append("its name has other characters than a-z, 0-9, _ and -")
    if texts["verify"] not in PROOFS:
        problems.append(f"verify is one of {', '.join(PROOFS)}")
    if not ns.is_component(texts["agent"]) or texts["agent"] in RESERVED:
        problems.append("agent is missing, or no name of an agent")
    if not ns.is_namespace(texts["namespace"]):
        problems.append("namespace is missing, or not one such as team/alerts")
    if not 1 <= len(secrets) <= 2:
        problems.append("secret is missing, or they are more than two")
    elif bad := bad_secret(list(secrets), root):
        problems.append(bad)
    if len(tags) > MOST_TAGS:
        problems.append(f"tags are at most {MOST_TAGS}")
    return problems
