"""The acts of a history as values, and how each is carried out, in whichever process."""

from __future__ import annotations

import json
import os
import random
import time
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import synapse
import synapse.store
from synapse import backup
from synapse.consolidate.nightly import run_nightly
from synapse.errors import StoreError, SynapseError
from synapse.exchange import merge_in
from synapse.log import adopt, reader
from synapse.log.upkeep import tree
from synapse.mail.mailbox import Mail
from synapse.model.agents import Agent
from synapse.model.entry import SECOND

# What became of an act: it was acknowledged; refused by a rule; failed, because the store did; cut
# short with its process; or it raised what nobody may see.
ACKED, REFUSED, FAILED, DIED, RAW = "acked", "refused", "failed", "died", "raw"


class Act(NamedTuple):
    """What is done, by whom, with which arguments. `token` is the word by which it is known."""

    kind: str
    agent: str
    token: str
    args: dict[str, Any]


@contextmanager
def virtual(now, trusting):
    """Have pauses follow the played time, in microseconds, and drops taken in at once. Whoever
    lists a folder trusts its time of change, or lists it again: never by the clock of the machine,
    by which no history could be played twice.
    """
    real, settled = (synapse.store.time, tree.time, reader.time), adopt.SETTLED
    start = time.time() + 1_000 if trusting else 0
    synapse.store.time = SimpleNamespace(monotonic=lambda: now() / SECOND)
    tree.time = SimpleNamespace(time=lambda: start + now() / SECOND * trusting)
    reader.time = SimpleNamespace(time_ns=lambda: 0)
    adopt.SETTLED = float("-inf")
    try:
        yield
    finally:
        synapse.store.time, tree.time, reader.time = real
        adopt.SETTLED = settled


def pause():
    """Wait until the clock of the file system has ticked: a change by hand has a time of its
    own.
    """
    time.sleep(0.01)


def opened(root, clock, seed):
    mem = synapse.open(root, clock=clock, draw=random.Random(seed).randbytes)
    mem.store.index.say = lambda text: None
    return mem


def attempt(mem, act):
    """Return what became of an act, and what it returned or said."""
    try:
        return ACKED, PERFORM[act.kind](mem, act)
    except StoreError as error:
        return FAILED, f"{type(error).__name__}: {error}"
    except SynapseError as error:
        return REFUSED, f"{type(error).__name__}: {error}"
    except Exception as error:
        return RAW, f"{type(error).__name__}: {error}"


def _append(mem, act):
    return mem.as_agent(act.agent).append(**act.args, tags=[act.token]).id


def _send(mem, act):
    return Mail(mem.as_agent(act.agent)).send(**act.args, tags=[act.token]).id


def _reply(mem, act):
    return Mail(mem.as_agent(act.agent)).reply(**act.args).id


def _receive(mem, act):
    inbox = Mail(mem.as_agent(act.agent)).inbox(**act.args, mark=True)
    return [message.id for message in inbox]


def _read_mail(mem, act):
    return Mail(mem.as_agent(act.agent)).read(act.args["ids"])


def _ack(mem, act):
    return Mail(mem.as_agent(act.agent)).ack(act.args["id"]).id


def _resolve(mem, act):
    return mem.as_agent(act.agent).resolve(act.args["id"], act.token).id


def _archive(mem, act):
    done = mem.as_agent(act.agent).archive(act.args["ids"], act.token)
    return [entry.id for entry in done]


def _restore(mem, act):
    done = mem.as_agent(act.agent).restore(act.args["ids"], act.token)
    return [entry.id for entry in done]


def _approve(mem, act):
    return mem.as_agent(act.agent).approve(act.args["id"]).id


def _reject(mem, act):
    return mem.as_agent(act.agent).reject(act.args["id"], act.token).id


def _claim(mem, act):
    return mem.as_agent(act.agent).claim(act.token, minutes=5).work


def _mark(mem, act):
    page = mem.as_agent(act.agent).read(unread=act.args["unread"], mark=True)
    return [entry.id for entry in page]


def _register(mem, act):
    return mem.register(Agent(**act.args)).id


def _look(mem, act):
    mem.store.refresh(whole=True)


def _rebuild(mem, act):
    return mem.rebuild().digest


def _night(mem, act):
    run_nightly(mem, act.args["date"], mem.store.clock())


def _verify(mem, act):
    return [f"{each.where}: {each.what}" for each in mem.verify().problems]


def _repair(mem, act):
    return [f"{each.where}: {each.what}" for each in mem.repair().problems]


def _merge(mem, act):
    return merge_in(mem.store, act.args["source"]).records


def _snapshot(mem, act):
    return backup.take(mem.store, act.args["directory"]).path


def _drop(mem, act):
    """Drop a file by hand, whole, as a program without any of ours does it."""
    path = os.path.join(mem.store.root, act.args["path"])
    pause()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(act.args["text"])


def _write(mem, act):
    """Edit a file of the operator's by hand."""
    pause()
    with open(os.path.join(mem.store.root, act.args["path"]), "w") as file:
        file.write(act.args["text"])


def _remove(mem, act):
    os.unlink(os.path.join(mem.store.root, act.args["path"]))


PERFORM = {
    "append": _append,
    "stage": _append,
    "send": _send,
    "reply": _reply,
    "receive": _receive,
    "read mail": _read_mail,
    "ack": _ack,
    "resolve": _resolve,
    "archive": _archive,
    "restore": _restore,
    "approve": _approve,
    "reject": _reject,
    "claim": _claim,
    "mark": _mark,
    "register": _register,
    "look": _look,
    "rebuild": _rebuild,
    "night": _night,
    "verify": _verify,
    "repair": _repair,
    "merge": _merge,
    "snapshot": _snapshot,
    "drop": _drop,
    "edit": _write,
    "remove": _remove,
}


def told(act):
    """Return an act in a line, for people."""
    return f"{act.agent} {act.kind} {act.token} {json.dumps(act.args)}"
