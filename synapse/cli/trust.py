"""The verb `trust`: a person sees what a workspace asks for beyond itself, or what was written
elsewhere, and decides.
"""

from __future__ import annotations

from synapse import core
from synapse.access import foreign as texts
from synapse.access.foreign import Foreign
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options, Usage
from synapse.cli.frame.show import clean, one_line
from synapse.errors import NotFound
from synapse.model import clock
from synapse.model.records import Record
from synapse.system import addresses, discovery
from synapse.system.typed import TYPE_CHECKING, Any
from synapse.trust import decisions
from synapse.trust.persons import persons_alone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from synapse.formats.wants import Want
    from synapse.log.accepted import KeyFields

NOT_TRUSTED = 1
SHOWN = 20  # criticals, and rules, that are shown each
EXCERPT = 100  # characters of a critical


def trust_options(parser: Options) -> None:
    add = parser.add_argument
    add("--show", action="store_true", help="only list what the workspace asks for")
    add("--revoke", action="store_true", help="take back what was trusted")
    add("--yes", action="store_true", help="trust all of it without a question")
    add("--text", action="store_true", help="accept what was written elsewhere, such as in a clone")
    add("--place", action="store_true", help="accept that the project's workspace lies elsewhere")
    add(
        "--author",
        action="append",
        default=[],
        metavar="AUTHOR",
        help="of --text: what this one wrote alone",
    )
    add(
        "--key",
        action="append",
        default=[],
        metavar="KEY",
        help="of --text: what is signed by this key alone; of its owner, nothing else from now on",
    )


def trust(call: Call) -> int:
    args = call.args
    if sum((args.show, args.revoke, args.yes)) > 1:
        raise Usage("give one of --show, --revoke and --yes")
    if args.place:
        return trust_place(call)
    return trust_text(call) if args.text else _trust_wants(call)


def _trust_wants(call: Call) -> int:
    """Show what the workspace asks for beyond itself, and trust it if the person says so."""
    args, store = call.args, call.memory.store
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
    if (
        found
        and not call.args.yes
        and not _agreed(call, _format(root, found), "Trust it with", "trusted")
    ):
        return False
    decisions.trust(root, found, clock.day(call.memory.store.clock()))
    return True


def _agreed(call: Call, text: str, verb: str, done: str) -> bool:
    """Print what it is about, ask, and return whether the answer is yes."""
    if call.json or not call.interactive:
        raise Usage("nobody is here to be asked: look with --show, then say --yes")
    call.say(text)
    yes = call.ask(f"{verb} all of this? [y/N] ").strip().lower() in ("y", "yes")
    if not yes:
        call.note(f"nothing was {done}")
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


# -- a workspace that lies out of its project -----------------------------------------------------


def trust_place(call: Call) -> int:
    """Show where the project's own link or pointer leads, and accept it if the person says so."""
    if call.args.revoke or call.args.root:
        raise Usage("--place goes with --show and --yes alone, in the project's folder")
    way = discovery.find_way_out()
    if way is None:
        raise NotFound("no link and no file .synapse of this project leads out of it")
    shown = one_line(f"{way.name} leads to {way.real}, out of {way.top}")
    if not call.args.show:
        persons_alone("accept where a project leads")
        if not call.args.yes and not _agreed(call, shown, "Accept", "accepted"):
            return NOT_TRUSTED
        discovery.accept_way_out(way)
    call.show({"name": way.name, "leads": way.real, "accepted": not call.args.show}, shown)
    return 0


# -- text that was written elsewhere ---------------------------------------------------------------


def trust_text(call: Call) -> int:
    """Show what was written elsewhere, and accept it if the person says so."""
    args, store = call.args, call.memory.store
    if args.revoke:
        raise Usage("what was accepted stays accepted: --revoke is for what a workspace asks for")
    foreign = texts.waiting(store)
    keys = texts.keys_in(store, foreign, args.key)
    if args.author or keys:
        foreign = foreign.by(args.author, keys)
    waits = any(foreign) or bool(keys)
    if args.show or not waits:
        call.show(lambda: as_json(foreign), lambda: format_foreign(call, foreign))
        return 0
    persons_alone("accept what was written elsewhere")
    if not args.yes and not _agreed(call, format_foreign(call, foreign), "Accept", "accepted"):
        return NOT_TRUSTED
    signed = {str(key["owner"]) for key in keys}
    authors = [name for name in texts.remembered(foreign) if name not in signed]
    texts.accept(store, foreign, authors, keys)
    store.operator_files.complaints.clear()  # of files that wait no more
    with core.open(store.root or call.root) as memory:  # which this one may only read
        memory.store.index.say = lambda note: None
        texts.take_in(memory.store, foreign.first - 1)
    text = accepted(foreign, authors, keys)
    call.show(lambda: as_json(foreign) | {"accepted": True}, text)
    return 0


def accepted(foreign: Foreign, authors: list[str], keys: Sequence[KeyFields]) -> str:
    """Return what was done, in a line or two."""
    count, files = len(foreign.records), len(foreign.files)
    lines = [f"accepted: {plural(count, 'record')}, {plural(files, 'file')}"]
    if authors:
        lines.append(f"what comes of {', '.join(authors)} is accepted from now on")
    lines += [f"of {key['owner']}, what the key {key['id']} signed alone is" for key in keys]
    return "\n".join(map(one_line, lines))


def format_foreign(call: Call, foreign: Foreign) -> str:
    """Return what waits, for people: by author, then what changes rights, criticals, and files."""
    root = call.memory.store.root
    if not any(foreign):
        return one_line(f"nothing in {root} waits to be accepted")
    lines = [f"{root} holds what was written elsewhere:"]
    lines += [f"  {author_line(name, foreign)}" for name in foreign.authors]
    rules = [f"{record.by} {why}" for record in foreign.records if (why := texts.raises(record))]
    lines += listed("changes of rights and rules:", rules)
    entries = texts.criticals(foreign)
    lines += listed(
        "critical:",
        [f"{entry.author} in {entry.namespace}: {excerpt(entry.body)}" for entry in entries],
    )
    lines += listed("files that came with it:", [path for path, _ in foreign.files])
    return "\n".join(map(one_line, lines))


def author_line(name: str, foreign: Foreign) -> str:
    """Return how much of what one author wrote."""
    own = [record for record in foreign.records if texts.author_of(record) == name]
    entries = [record for record in own if record.kind == "entry"]
    counts = [plural(len(entries), "entry", "entries")] if entries else []
    for priority in ("critical", "important"):
        if count := sum(record.fields.get("priority") == priority for record in entries):
            counts.append(f"{count} {priority}")
    if acts := len(own) - len(entries):
        counts.append(plural(acts, "act"))
    return f"{name}: {', '.join(counts)}"


def listed(title: str, texts: list[str]) -> list[str]:
    """Return a title with these lines below it, and how many more there are."""
    if not texts:
        return []
    ending = [f"    and {len(texts) - SHOWN} more"] if texts[SHOWN:] else []
    return [f"  {title}", *(f"    {text}" for text in texts[:SHOWN]), *ending]


def excerpt(body: str) -> str:
    """Return how a body begins, in one line."""
    text = " ".join(body.split())
    return text if len(text) <= EXCERPT else f"{text[: EXCERPT - 1]}…"


def plural(count: int, one: str, many: str = "") -> str:
    """Return a number with its noun."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def as_json(foreign: Foreign) -> dict[str, Any]:
    """Return what waits, for programs."""
    return {
        "authors": {
            name: len([r for r in foreign.records if texts.author_of(r) == name])
            for name in foreign.authors
        },
        "rules": [why for record in foreign.records if (why := texts.raises(record))],
        "criticals": [entry.id for entry in texts.criticals(foreign)],
        "entries": [entry_row(r) for r in foreign.records if r.kind == "entry"],
        "files": [path for path, _ in foreign.files],
    }


def entry_row(record: Record) -> dict[str, Any]:
    """Return what is told of an entry that waits."""
    names = ("namespace", "priority")
    row = {name: record.fields.get(name) for name in names}
    return {"id": record.id, "author": texts.author_of(record), **row}
