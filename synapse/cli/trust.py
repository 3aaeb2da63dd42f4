"""The verb `trust`: a person sees what a workspace asks for beyond itself, and decides."""

from __future__ import annotations

from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options, Usage
from synapse.cli.frame.show import clean, one_line
from synapse.model import clock
from synapse.system import addresses
from synapse.system.typed import TYPE_CHECKING, Any
from synapse.trust import decisions
from synapse.trust.persons import persons_alone

if TYPE_CHECKING:
    from synapse.formats.wants import Want

NOT_TRUSTED = 1


def trust_options(parser: Options) -> None:
    add = parser.add_argument
    add("--show", action="store_true", help="only list what the workspace asks for")
    add("--revoke", action="store_true", help="take back what was trusted")
    add("--yes", action="store_true", help="trust all of it without a question")


def trust(call: Call) -> int:
    args, store = call.args, call.memory.store
    if sum((args.show, args.revoke, args.yes)) > 1:
        raise Usage("give one of --show, --revoke and --yes")
    root = store.root or call.root
    if args.revoke:
        return _revoke(call, root)
    wants = decisions.asked(store.settings, root)
    if not args.show and not _decided(call, root, wants):
        return NOT_TRUSTED
    call.show(lambda: _as_json(root, wants), lambda: _format(root, wants))
    return 0


def _revoke(call: Call, root: str) -> int:
    had = decisions.revoke(root)
    done = "is trusted with nothing any more" if had else "was trusted with nothing"
    call.show({"root": root, "revoked": had}, clean(f"{root} {done}"))
    return 0


def _decided(call: Call, root: str, found: list[Want]) -> bool:
    """Trust the workspace, if the person says so; return whether that was done."""
    persons_alone("trust a workspace")
    if found and not call.args.yes and not _confirmed(call, root, found):
        return False
    decisions.trust(root, found, clock.day(call.memory.store.clock()))
    return True


def _confirmed(call: Call, root: str, found: list[Want]) -> bool:
    """Print what is asked for, ask, and return whether the answer is yes."""
    if call.json or not call.interactive:
        raise Usage("nobody is here to be asked: look with --show, then say --yes")
    call.say(_format(root, found))
    yes = call.ask("Trust it with all of this? [y/N] ").strip().lower() in ("y", "yes")
    if not yes:
        call.note("nothing was trusted")
    return yes


def _as_json(root: str, found: list[Want]) -> dict[str, Any]:
    decided = decisions.decision(root)
    rows = [
        {
            "kind": want.kind,
            "what": want.what,
            "file": want.file,
            "key": want.key,
            "place": decisions.place_kind(want) or None,
            "state": state,
        }
        for want, state in _states(root, found)
    ]
    return {"root": root, "date": decided.date if decided else None, "wants": rows}


def _format(root: str, found: list[Want]) -> str:
    if not found:
        return clean(f"{root} asks for nothing beyond itself")
    lines = [f"{root} asks for:"]
    for want, state in _states(root, found):
        lines.append(f"  {state}: {want.line}")
        server_kind = decisions.place_kind(want)
        if server_kind:
            lines.append(f"      the address is {_MEANING[server_kind]} now")
        if want.never:
            lines.append(f"      {want.never}")
    return "\n".join(map(one_line, lines))


def _states(root: str, found: list[Want]) -> list[tuple[Want, str]]:
    still_open = decisions.open_wants(root, found)
    return [
        (want, "never" if want.never else "not trusted" if want in still_open else "trusted")
        for want in found
    ]


_MEANING = {
    addresses.PUBLIC: "on the public network",
    addresses.PRIVATE: "in a private network",
    addresses.LOOPBACK: "on this machine",
    addresses.NEVER: "one that is never called",
    addresses.MIXED: "in several networks at once, and is never called",
}
