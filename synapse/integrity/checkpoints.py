"""Signed checkpoints of a journal, kept outside of the workspace: in the person's own folder, and
at a second place that the person names.

One is made every so many records, by the process that writes them, and each night. What is signed
once is never signed otherwise: where the journal is another one than the last checkpoint says, none
is made until a person looked. `repair` and the shell ask here; a spawned run makes none.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from synapse.errors import Conflict, InvalidEntry, NoKey, NotFound, SynapseError
from synapse.formats import note
from synapse.formats.note import Checkpoint, Key
from synapse.formats.wants import of_checkpoints, place_of_checkpoints
from synapse.integrity.last_signed import Signed, chained, folder_of, last_signed, missed
from synapse.integrity.schedule import every_of
from synapse.log.chain import chain_of, seq_of
from synapse.log.disk import write_file
from synapse.log.files import FilesLog
from synapse.model.results import Problem
from synapse.store import Store
from synapse.system import home
from synapse.system.plain_files import open_file
from synapse.trust import decisions
from synapse.trust.persons import persons_alone

MOST = 50_000  # records whose chains one note names
_KEY = "keys/checkpoint"
_NOTE = ".note"
_WHOLE = b"}\n"  # how a line ends that is not torn


def attempt(store: Store, last: int | None = None) -> None:
    """Make a checkpoint where that is wanted and can be done, after all else has been done."""
    try:
        if every_of(store):
            make(store, last)
    except Conflict as error:  # a journal that is another one concerns a person
        store.index.say(str(error))
    except (SynapseError, OSError):
        pass


def make(store: Store, last: int | None = None) -> Checkpoint | None:
    """Sign the journal up to a record, or to its end, and keep that; None where nothing is new, or
    where this process is no person's. Conflict where the journal is not the one that was signed
    before.
    """
    log = store.log
    if not isinstance(log, FilesLog) or log.forked or os.environ.get("SYNAPSE_RUN"):
        return None
    root, before = log.root, last_signed(log.root)
    last = log.last() if last is None else last
    if last <= (before.size if before else 0):
        _demand(store, before)
        return None
    signed = list(chained(log, (before.size if before else 1) - 1, last))
    if not signed or signed[-1][0] != last:
        return None
    if before is not None and signed[0] != before:
        raise Conflict(_other(root, before), path=root)
    first = signed[0][1] if before is None else next(chained(log, 0, 1))[1]
    news = signed[1:] if before is not None else signed
    prefixes = tuple(bytes.fromhex(chain)[: note.PREFIX] for _, chain in news[-MOST:])
    checkpoint = Checkpoint(note.origin_of(first), last, signed[-1][1], prefixes)
    key, secret = _own_key()
    text = note.sign(checkpoint, key, secret).encode()
    home.write(f"{folder_of(root)}/{last:018d}{_NOTE}", text)
    home.write(f"{folder_of(root)}/head", f"{last} {checkpoint.chain}\n".encode())
    _copy(store, f"{checkpoint.origin[16:32]}-{last:018d}{_NOTE}", text, key)
    return checkpoint


def warning(store: Store) -> str | None:
    """Return what to tell whoever opens a workspace whose journal does not hold what was signed
    last: an older copy was put in its place, its end was cut off, or it was written anew.
    """
    try:
        if missed(store) is None:
            return None
        with store.snapshot():  # an index of another journal is made anew
            signed = missed(store)
    except SynapseError:
        return None
    if signed is None:
        return None
    end = store.log.last()
    problem = (
        f"the journal ends at record {end}, but record {signed.size} was signed: an older"
        " copy was restored, or the end was cut off"
        if end < signed.size
        else f"record {signed.size} of the journal is not the one that was signed: another"
        " copy was put in its place, or it was written anew"
    )
    return (
        f"{problem}; `synapse verify` says more, and `synapse checkpoint --forget` accepts"
        " what is there"
    )


def compare(store: Store, against: str | None = None, vkey: str | None = None) -> Iterator[Problem]:
    """Yield what differs from the checkpoints that are kept, or from those of a file or folder."""
    log = store.log
    if not isinstance(log, FilesLog) or log.forked:
        return
    notes = list(_notes(log.root) if against is None else _notes_at(against))
    if not notes:
        if against is not None:
            raise NotFound(f"there is no checkpoint at {against}", path=against)
        return
    key = note.key_of(vkey) if vkey else _own_public()
    if key is None:
        raise NoKey(
            "there is no key of this person to check the checkpoints by: name the one that"
            " `synapse checkpoint --show` printed where they were signed, with --key"
        )
    checkpoints: list[Checkpoint] = []
    for name, text in notes:
        try:
            checkpoints.append(note.opened(text, key))
        except InvalidEntry as error:
            yield Problem(f"checkpoint {name}", str(error))
    if against is not None:  # one folder may have those of several workspaces
        first = next(chained(log, 0, 1), (0, ""))[1]
        own = [c for c in checkpoints if c.origin == note.origin_of(first)]
        checkpoints = own or checkpoints
    yield from _differences(log, checkpoints)


def signed_up_to(store: Store, against: str | None = None, vkey: str | None = None) -> int:
    """Return the last record that the checkpoints speak of with which `compare` compares; 0 where
    there are none: the workspace is new, or was moved, or is another person's.
    """
    key = note.key_of(vkey) if vkey else _own_public()
    if key is None or not isinstance(store.log, FilesLog):
        return 0
    sizes = [0]
    for _, text in _notes(store.log.root) if against is None else _notes_at(against):
        try:
            sizes.append(note.opened(text, key).size)
        except InvalidEntry:
            continue  # `compare` names it
    return max(sizes)


def forget(root: str) -> int:
    """Forget the checkpoints of a workspace, for a person who accepts what is there; return how
    many there were.
    """
    persons_alone("forget checkpoints")
    names = [*_names(root), "head"]
    return sum(home.remove(f"{folder_of(root)}/{name}") for name in names) - 1


def listed(root: str) -> list[tuple[str, Checkpoint | None]]:
    """Return the files of the checkpoints that are kept, with what they say; None where one is not
    signed by this person.
    """
    key = _own_public()
    rows: list[tuple[str, Checkpoint | None]] = []
    for name, text in _notes(root):
        try:
            rows.append((name, note.opened(text, key) if key else None))
        except InvalidEntry:
            rows.append((name, None))
    return rows


def own_vkey() -> str | None:
    """Return the public key of this person; None where nothing was signed yet."""
    key = _own_public()
    return key.vkey if key else None


# -- the journal -----------------------------------------------------------------------------------


def _differences(log: FilesLog, checkpoints: Sequence[Checkpoint]) -> Iterator[Problem]:
    """Yield the first record that is not the one that was signed, and where the end is missing."""
    if not checkpoints:
        return
    chains: dict[int, str] = {}
    for checkpoint in checkpoints:
        chains[checkpoint.size] = checkpoint.chain
    starts: dict[int, str] = {}
    for checkpoint in sorted(checkpoints, key=lambda each: each.size):
        first = checkpoint.size - len(checkpoint.prefixes) + 1
        for number, prefix in enumerate(checkpoint.prefixes, first):
            starts.setdefault(number, prefix.hex())
    origins = {checkpoint.origin for checkpoint in checkpoints}
    end = 0
    for raw in log.journal.raw_lines():
        seq, chain = seq_of(raw), chain_of(raw)
        # sealed, doubled or torn: the proof of the chain looks at those
        if seq <= end or not raw.endswith(_WHOLE):
            continue
        wrong = seq == 1 and note.origin_of(chain) not in origins
        wrong = wrong or seq != end + 1 or not chain.startswith(starts.get(seq, ""))
        if wrong or not chain.startswith(chains.get(seq, "")):
            signed = min((size for size in chains if size >= seq), default=0)
            if signed:
                yield Problem(
                    "journal",
                    f"record {end + 1} is not the one that was signed with the checkpoint of"
                    f" {signed} records: the journal was rewritten",
                )
            return
        end = seq
    if end < (last := max(chains)):
        yield Problem(
            "journal",
            f"ends at record {end}, but a checkpoint of {last} records was signed: an older"
            " copy was restored, or its end was cut off",
        )


def _demand(store: Store, before: Signed | None) -> None:
    assert isinstance(store.log, FilesLog)
    if before and next(chained(store.log, before.size - 1, before.size), None) != before:
        raise Conflict(_other(store.log.root, before), path=store.log.root)


def _other(root: str, before: Signed) -> str:
    return (
        f"the journal of {root} is not the one of the checkpoint of {before.size} records:"
        " `synapse verify` says where it differs, `synapse checkpoint --forget` accepts it"
    )


# -- keys and places -------------------------------------------------------------------------------


def _own_key() -> tuple[Key, bytes]:
    """Return this person's key, which is made when it is first needed."""
    raw = home.read(_KEY)
    if raw is None:
        name = f"synapse-{os.urandom(4).hex()}"
        home.write(_KEY, f"{name} {os.urandom(32).hex()}\n".encode(), new=True)
        raw = home.read(_KEY)
    try:
        name, _, text = (raw or b"").decode().strip().partition(" ")
        secret = bytes.fromhex(text)
        return note.public_of(name, secret), secret
    except ValueError as error:
        path = os.path.join(home.operator_home(), _KEY)
        raise NoKey(f"{path} holds no key: restore it, or delete it for a new one") from error


def _own_public() -> Key | None:
    return None if home.read(_KEY) is None else _own_key()[0]


def _names(root: str) -> list[str]:
    try:
        names = os.listdir(os.path.join(home.operator_home(), folder_of(root)))
    except OSError:
        return []
    return sorted(name for name in names if name.endswith(_NOTE))


def _notes(root: str) -> Iterator[tuple[str, str]]:
    for name in _names(root):
        raw = home.read(f"{folder_of(root)}/{name}")
        yield name, (raw or b"").decode("utf-8", "replace")


def _notes_at(path: str) -> Iterator[tuple[str, str]]:
    """Yield the notes of a file or a folder that a person names."""
    folder = os.path.abspath(os.path.expanduser(path))
    try:
        names: Iterable[str] = [folder]
        if os.path.isdir(folder):
            names = [
                os.path.join(folder, name)
                for name in sorted(os.listdir(folder))
                if name.endswith(_NOTE)
            ]
        for name in names:
            with open(open_file(name), "rb") as file:
                raw = file.read(note.LONGEST + 1)
            yield os.path.basename(name), raw.decode("utf-8", "replace")
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}", path=path) from error


def _copy(store: Store, name: str, text: bytes, key: Key) -> None:
    """Put the note at the second place, where a person trusted the workspace with it."""
    assert isinstance(store.log, FilesLog)
    block = dict(store.settings.other).get("checkpoints")
    folder = place_of_checkpoints(block, store.log.root)
    if folder is None:
        return
    decisions.demand(store.log.root, of_checkpoints(block, store.log.root))
    os.makedirs(folder, mode=0o700, exist_ok=True)
    write_file(os.path.join(folder, name), text, 0o600)
