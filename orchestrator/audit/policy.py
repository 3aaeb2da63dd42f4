"""What our plugin would have told recorded sessions, and whether that was right, needed, and worth
its tokens: the newest of them are given to its hooks act by act, in a process of its own, with a
workspace and a home folder that go with it. Called by the shell's `audit`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

from orchestrator.audit import reading
from orchestrator.audit.replay import CLIENT, Given, Replay, grouped
from orchestrator.audit.sources import File
from orchestrator.audit.step import Step
from orchestrator.plugin.facts import load
from orchestrator.reports.intervals import Interval, ratio
from synapse.errors import SynapseError
from synapse.privacy.secrets import mask

MEMORY = "/dev/shm"  # where it is, files are made without a disk
NAMED = 10  # errors that are named
KEPT = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "TZ", "VIRTUAL_ENV")  # of the environment
AGENTS = "subagents"  # the folder of a session's sub-agents


class Policy(NamedTuple):
    """What would have been told: notices that are `right`, `wrong` or `missed` by the recording,
    and those of them that were `needed`. Tokens are counted at each turn that sent them: `paid` in
    these sessions, `added` by the plugin with what it lists, `spared`; `net` is what is left of
    what it spares, as a share of what was paid, with its interval over the sessions.
    """

    sessions: int
    calls: int
    right: int
    wrong: int
    missed: int
    needed: int
    unneeded: int
    paid: int
    added: int
    spared: int
    net: Interval
    errors: Sequence[str]

    def sentence(self) -> str:
        """Return what it comes to."""
        if not self.paid:
            return "No session of Claude Code to replay."
        low, high = f"{self.net.lo:+.1%}", f"{self.net.hi:+.1%}"
        return (
            f"Our plugin would have taken {self.added / self.paid:.1%} of the tokens of"
            f" {self.sessions:,} session{'s' * (self.sessions != 1)} and spared"
            f" {self.spared / self.paid:.1%}: {self.net.value:+.1%} [{low}, {high}]."
        )


def choose(files: Sequence[File], most: int) -> list[File]:
    """Return the files of the newest sessions, as many bytes of them as are wanted, in the order
    in which they are given.
    """
    sessions = defaultdict[str, list[File]](list)
    for file in files:
        sessions[_session(file.path)].append(file)
    newest = sorted(sessions.values(), key=lambda group: -max(file.changed for file in group))
    chosen, size = set[File](), 0
    for group in newest:
        size += sum(file.size for file in group)
        if chosen and size > most:
            break
        chosen.update(group)
    return [file for file in files if file in chosen]


def _session(path: str) -> str:
    """Return the path of a session's own file, without its end."""
    folder = os.path.dirname(path)
    return os.path.dirname(folder) if os.path.basename(folder) == AGENTS else path[: -len(".jsonl")]


@contextmanager
def playing(files: Sequence[File], since: int = 0) -> Iterator[Callable[[], Policy]]:
    """Replay these files' sessions in a process of its own, beside the caller; yield a function
    that waits for what would have been told in them.
    """
    where = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="synapse-audit-", dir=where) as folder:
        home = {name: os.path.join(folder, "home") for name in ("HOME", "SYNAPSE_HOME")}
        env = {name: os.environ[name] for name in KEPT if name in os.environ} | home
        request = os.path.join(folder, "request.json")
        with open(request, "w", encoding="utf-8") as file:
            json.dump({"files": files, "since": since, "folder": os.path.join(folder, "own")}, file)
        answer, problems = (os.path.join(folder, name) for name in ("answer.json", "errors.txt"))
        with open(answer, "w+b") as output, open(problems, "w+b") as errors:
            words = [sys.executable, "-m", "orchestrator.audit.policy", request]
            child = subprocess.Popen(words, stdout=output, stderr=errors, env=env)
            try:
                yield lambda: _result(child, output, errors)
            finally:
                child.kill()
                child.wait()


def _result(child: subprocess.Popen[bytes], output: IO[bytes], errors: IO[bytes]) -> Policy:
    """Wait for the process, and return what it found."""
    code = child.wait()
    output.seek(0)
    errors.seek(0)
    if code:
        lines = errors.read().decode("utf-8", "replace").strip().splitlines()
        problem = (lines or [f"exit code {code}"])[-1]
        raise SynapseError(f"the sessions could not be replayed: {problem}")
    fields = json.load(output)
    return Policy(**fields | {"net": Interval(*fields["net"])})


def play(files: Sequence[File], folder: str, since: int = 0) -> tuple[Policy, Counter[str]]:
    """Replay the sessions of these files below a folder, and return the figures, and a count of all
    that happened.
    """
    sessions = defaultdict[str, list[Step]](list)
    for client, step in reading.steps(files, Counter(), since):
        if client == CLIENT and step.cwd.startswith("/"):
            folder_of = os.path.normpath(f"/{step.cwd.lstrip('/')}")
            sessions[step.session].append(step._replace(cwd=folder_of))
    count, replays = Counter[str](), list[Replay]()
    for number, (root, steps) in enumerate(grouped([*sessions.values()])):
        base = os.path.realpath(os.path.join(folder, str(number)))
        replay = Replay(root, steps, base, count)
        replay.run()
        replays.append(replay)
    return _figures(replays, count), count


def _figures(replays: Sequence[Replay], count: Mapping[str, int]) -> Policy:
    paid, added, spared = Counter[str](), Counter[str](), Counter[str]()
    listed = load(CLIENT).raw["adds"]
    each_turn = listed["tools"] + listed["listing"]
    for replay in replays:
        for conversation in replay.conversations.all.values():
            turns = conversation.turns.values()
            tokens = sum(turn.usage.input_tokens + turn.usage.output_tokens for turn in turns)
            paid[conversation.session] += tokens
            added[conversation.session] += each_turn * len(turns)
        added.update(_by_session(replay.given))
        spared.update(_by_session(replay.spared))
    sessions = sorted(paid)
    nets = [float(spared[session] - added[session]) for session in sessions]
    wrong = sum(number for name, number in count.items() if name.startswith("FALSE"))
    rights = ("edit of another", "by no edit", "unchanged, named", "unchanged, beside")
    errors = [mask(text) for replay in replays for text in replay.wrong]
    return Policy(
        len(sessions),
        count["calls"],
        sum(count[name] for name in (*rights, "result, the same")),
        wrong,
        count["missed"],
        sum(number for name, number in count.items() if name.startswith("needed")),
        sum(number for name, number in count.items() if name.startswith("not needed")),
        paid.total(),
        added.total(),
        spared.total(),
        ratio(nets, [float(paid[session]) for session in sessions]),
        errors[:NAMED],
    )


def _by_session(texts: Sequence[Given]) -> Counter[str]:
    tokens = Counter[str]()
    for given in texts:
        tokens[given.conversation.session] += given.billed
    return tokens


def _answer(request: Mapping[str, Any]) -> str:
    files = [File(*fields) for fields in request["files"]]
    os.makedirs(request["folder"])
    policy, _ = play(files, request["folder"], request["since"])
    return json.dumps(policy._asdict())


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        sys.stdout.write(_answer(json.load(file)))
