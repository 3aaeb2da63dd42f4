"""The verb `keys`: a person lists the keys of a workspace, makes and ends them, and hands them
on.
"""

from __future__ import annotations

import sys

from synapse.access.sharing import share
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options, Usage
from synapse.cli.frame.table import table
from synapse.model.keys import WORKSPACE
from synapse.trust.workspace_keys import WorkspaceKeys

ACTS = (
    "list",
    "new",
    "rotate",
    "revoke",
    "share",
    "export-public",
    "import-public",
    "protect",
    "unprotect",
)


def keys_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "what",
        nargs="?",
        default="list",
        metavar="WHAT",
        help=f"{', '.join(ACTS[:-1])} or {ACTS[-1]} (default: list)",
    )
    add(
        "whose",
        nargs="?",
        metavar="AGENT",
        help="the agent (default: the workspace); share: the entry; import-public: the file",
    )
    parser.add_author()
    add("--to", metavar="AGENT", help="with share: who is to be able to open the entry")
    add("--id", metavar="KEY", help="the key to revoke (default: the current one)")


def keys(call: Call) -> None:
    args = call.args
    if args.what not in ACTS:
        raise Usage(f"keys {args.what}: write one of {', '.join(ACTS)}")
    if args.id and args.what != "revoke":
        raise Usage("--id is for revoke")
    _ACTS[args.what](call, WorkspaceKeys(call.memory.store))


def _list(call: Call, held: WorkspaceKeys) -> None:
    keys = [key for key in held.list() if call.args.whose in (None, key.owner)]
    text = "there are no keys; `synapse keys new AGENT` makes one"
    if keys:
        rows = [
            (key.owner, key.id, key.state, key.since[:10], "here" if key.here else "not here")
            for key in keys
        ]
        text = table(("owner", "key", "state", "since", "private half"), rows)
    call.show(lambda: {"keys": [key._asdict() for key in keys]}, text)


def _export(call: Call, held: WorkspaceKeys) -> None:
    text = held.export_public(call.args.whose)
    call.show({"owner": call.args.whose or WORKSPACE, "public": text}, text.rstrip())


def _import(call: Call, held: WorkspaceKeys) -> None:
    path = call.args.whose
    if not path:
        raise Usage("keys import-public: which file? - is standard input")
    if path == "-":
        text = sys.stdin.read(1 << 16)
    else:
        with open(path, encoding="utf-8") as file:
            text = file.read(1 << 16)
    key = held.import_public(text)
    _done(call, key.owner, key.id, "has the key")


def _new(call: Call, held: WorkspaceKeys) -> None:
    _done(call, call.args.whose, held.new(call.args.whose), "has the key")


def _rotate(call: Call, held: WorkspaceKeys) -> None:
    _done(call, call.args.whose, held.rotate(call.args.whose), "has the key")


def _revoke(call: Call, held: WorkspaceKeys) -> None:
    id = held.revoke(call.args.whose, call.args.id)
    _done(call, call.args.whose, id, "signs no more with")


def _share(call: Call, held: WorkspaceKeys) -> None:
    args = call.args
    if not (args.whose and args.to):
        raise Usage("keys share ID --to AGENT: which entry, and with whom?")
    key = share(call.actor().access, args.whose, args.to)
    call.show({"id": args.whose, "to": args.to, "key": key}, f"shared with {args.to}")


def _protect(call: Call, held: WorkspaceKeys) -> None:
    from synapse.trust.passphrase import new_passphrase

    _rewrite(call, held, new_passphrase())


def _unprotect(call: Call, held: WorkspaceKeys) -> None:
    _rewrite(call, held, "")


def _rewrite(call: Call, held: WorkspaceKeys, passphrase: str) -> None:
    count = held.protect(passphrase)
    which = f"{count} private {'key is' if count == 1 else 'keys are'}"
    how = "behind the passphrase" if passphrase else "behind none"
    call.show({"keys": count, "protected": bool(passphrase)}, f"{which} {how}")


def _done(call: Call, whose: str | None, id: str, what: str) -> None:
    owner = whose or WORKSPACE
    call.show({"owner": owner, "key": id}, f"{owner} {what} {id}")


_ACTS = dict(
    zip(
        ACTS,
        (_list, _new, _rotate, _revoke, _share, _export, _import, _protect, _unprotect),
        strict=True,
    )
)
