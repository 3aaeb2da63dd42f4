"""The cast: what agents do where there is no model. Each is made of a policy and a seed, and sees
what a model would see: its prompt, the schemas of its tools, and their results. It knows no memory,
no scenario, no other agent.

A worker reads its task, finds what the task needs in what it was shown, else searches if it has a
tool for that, else finds out by itself, which is slow; then it works, and hands in what it knows.
It believes what it reads: its own findings first, then who has most authority, then what reached it
last, then the newest. What only somebody with less authority than its own says, and what is marked
as in dispute, it looks up before it uses it. How much of a text it takes in, how often it thinks of
its tools, how it words and what it writes down are chances that the policy sets.

What answers a call of a tool of the world it takes in as its own observation, whoever got it first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain
from random import Random
from typing import NamedTuple

from orchestrator.engines.protocol import Call, Message
from orchestrator.engines.scripted import Move, Seen
from scenarios.data.schema import Size
from scenarios.play.statements import UNNAMED, in_dispute, statements
from scenarios.play.world import drawn, filler, noise

OWN = 1_000  # what it found out itself weighs more than anybody's word
LOOKS = 6  # times that it looks for a decision
ASKS = (
    3  # times that it asks for what another is finding out, before it does that itself
)
TRIES = 2  # times that it tries to find out what fails
PATIENCE = 60.0  # seconds until an agent looks again for what another is finding out
WORLD = (
    "work",
    "investigate",
    "submit",
    "decide",
)  # tools that are no part of a memory
CHATTER = 40  # words of a note on progress
AUTHORITY = {
    "CTO": 100,
    "project": 80,
    "engineer": 60,
    "QA": 60,
    "specialist": 40,
}  # by the word for a role
_QUESTION = re.compile(
    (
        r"^- \[blockers/[^\]]+\] (syn-[0-9-]+) .*\n +> Blocked: \S+ needs a decision on"
        r" ([^\n.(]+[^\n.( ])"
    ),
    re.MULTILINE,
)
_ITEM = re.compile(r"- \[([a-z0-9_-]+)\] (.*)")


class Policy(NamedTuple):
    """How an agent goes about its work. Sizes in tokens, `thinks` in seconds."""

    plays: str = "worker"
    p_read: float = 1.0
    tool_use: float = 1.0
    claims: bool = True
    window: int = 128_000
    slip: float = 0.0
    output: Size = Size(236, 601)
    thinks: Size = Size(8, 25)
    beside: float = 1.0
    claims_otherwise: float = 0.0
    bare_queries: float = 0.0
    chatter: float = 0.0
    wrong_notes: float = 0.0
    heeds: float = 1.0


class Player:
    """One policy at play. It remembers nothing: what it has done stands in the conversation."""

    def __init__(self, policy: Policy, seed: int) -> None:
        self.policy, self.seed = policy, seed

    def __call__(self, seen: Seen) -> Move:
        player = _Part(self.policy, self.seed, seen)
        move = (
            player.coordinate()
            if self.policy.plays in ("cto", "lead")
            else player.work()
        )
        return move._replace(
            takes=move.takes + drawn(self.policy.thinks, player.random("thinks"))
        )


class Done(NamedTuple):
    """A call that was made, and what it gave; None while nothing came."""

    name: str
    arguments: dict[str, object]
    text: str | None


class Task(NamedTuple):
    """A task as its text says it."""

    name: str
    needs: tuple[str, ...]
    places: tuple[tuple[str, str], ...]
    steps: int
    acts: bool
    passes: bool
    stages: tuple[tuple[tuple[str, str], ...], ...]


class _Part:
    """One step of one agent."""

    def __init__(self, policy: Policy, seed: int, seen: Seen) -> None:
        self.policy, self.seed, self.seen = policy, seed, seen
        parsed = seen.system.split(None, 12)
        self.me = parsed[2].strip(",.")
        self.authority = next(
            (
                AUTHORITY[token.strip(",.")]
                for token in parsed
                if token.strip(",.") in AUTHORITY
            ),
            60,
        )
        self.ignores = (
            policy.p_read <= 0
        )  # who reads nothing of a memory does not ask it either
        self.tools = {tool.name: tool.description for tool in seen.tools}
        self.done = list(_done(seen.messages))
        text = next(
            message.text for message in seen.messages if message.label == "task"
        )
        self.task = read_task(text)
        self.length = sum(len(message.text) for message in seen.messages) // 4
        self.own = {
            call.id
            for message in seen.messages
            for call in message.calls
            if call.name in WORLD
        }

    def random(self, *about: object) -> Random:
        return Random(
            f"{self.seed} {self.me} {self.task.name} {self.seen.turn} {about}"
        )

    def chance(self, p: float, *about: object) -> bool:
        """Return whether an event of this probability happens; the same answer for the same
        event.
        """
        return (
            p >= 1
            or Random(f"{self.seed} {self.me} {self.task.name} {about}").random() < p
        )

    def says(self, words: str = "") -> str:
        size = drawn(self.policy.output, self.random("output"))
        return f"{words}\n\n{filler(size)}" if words else filler(size)

    def made(self, name: str) -> list[Done]:
        return [done for done in self.done if done.name == name]

    # -- a worker --

    def work(self) -> Move:
        values = {need: self.reads(need) for need in self.task.needs}
        unknown = [need for need, value in values.items() if value is None]
        move = (
            self._searches(unknown)
            or self._finds_out(unknown)
            or self._works(values, unknown)
            or self._hands_in(values)
            or self._ends(values)
        )
        return self._chats(self._sharing(self._notes(), move))

    def reads(self, subject: str) -> str | None:
        """Return the value of a subject, as this agent takes it from what it was shown; None where
        it knows none, or has to look one up that only a lower authority gives, or that is in
        dispute.
        """
        best: tuple[int, int, str] | None = None
        value, doubted = None, False
        offset = 0
        for at, message in enumerate(self.seen.messages):
            own = self._is_own(message)
            if own and subject in _refused(message.text):
                best = value = None  # what it used was not true any more
            if message.role != "assistant":
                for rank, when, statement in statements(message.text, subject):
                    weight = OWN if own else rank
                    if (best is None or (weight, at, when) >= best) and self._takes_in(
                        message, offset, subject, statement
                    ):
                        best, value = (weight, at, when), statement
                        doubted = not own and (
                            UNNAMED < rank < self.authority
                            or in_dispute(message.text, statement)
                        )
            offset += len(message.text) // 4
        return None if doubted and self._looks_up(subject) else value

    def _is_own(self, message: Message) -> bool:
        """Return whether this answers its own call of a tool of the world, whoever paid for the
        answer.
        """
        return message.role == "tool" and message.answers in self.own

    def _looks_up(self, subject: str) -> bool:
        """Return whether it looks this up before it believes it: by chance, and only where that is
        possible.
        """
        return self.chance(self.policy.heeds, "heeds", subject) and not self._gave_up(
            subject
        )

    def _gave_up(self, need: str) -> bool:
        """Return whether it has found that it cannot find this out."""
        texts = [
            done.text
            for done in self.made("investigate")
            if done.arguments.get("subject") == need and done.text
        ]
        refused = sum("Only " in text for text in texts)
        return sum(
            text.startswith("Error") for text in texts
        ) >= TRIES or refused > self._times_blocked(need)

    def _takes_in(self, message: Message, place: int, subject: str, value: str) -> bool:
        """Return whether it takes this in: what its own calls gave always; of the rest a share, and
        less of the middle of what is too long.
        """
        if self._is_own(message):
            return True
        window, p = self.policy.window, self.policy.p_read
        if self.length > window and window // 2 < place < self.length - window // 2:
            p *= 0.5
        return self.chance(p, "read", message.label, subject, value)

    def _notes(self) -> tuple[tuple[str, dict[str, object]], ...]:
        """Return calls that write down its own findings, where it has a tool for that."""
        if "append" not in self.tools:
            return ()
        written = {str(done.arguments.get("body")) for done in self.made("append")}
        notes = [
            found
            for found in self._found()
            if found not in written and self.chance(self.policy.tool_use, "share")
        ]
        namespace, priority = self._place()
        return tuple(("append", _note(namespace, note, priority)) for note in notes)

    def _place(self) -> tuple[str, str]:
        """Return where its notes go, and with what priority."""
        return self.task.places[0] if self.task.places else ("status/notes", "info")

    def _chats(self, move: Move) -> Move:
        """Now and then a note on how far it is goes beside a call. It takes no turn of its own,
        also where findings do: the least that it can cost those who offer a place to write to.
        """
        if (
            "append" not in self.tools
            or not move.calls
            or move.takes
            or self.policy.chatter <= 0
        ):
            return move
        random = self.random("chatter")
        if random.random() >= self.policy.chatter:
            return move
        note = _note(self._place()[0], noise(CHATTER, random), "info")
        return move._replace(calls=(("append", note), *move.calls))

    def _sharing(
        self, notes: tuple[tuple[str, dict[str, object]], ...], move: Move
    ) -> Move:
        """Write them down: beside the next call, where the tool asks for that and there is one that
        need not wait; else before it.
        """
        if not notes:
            return move
        batches = "beside" in self.tools["append"] and self.chance(
            self.policy.beside, "beside"
        )
        if batches and move.calls and not move.takes:
            return move._replace(calls=(*notes, *move.calls))
        return Move(self.says(), notes)

    def _found(self) -> list[str]:
        """Return the statements that its own investigations gave, as it writes them down: now and
        then wrongly.
        """
        texts = [
            done.text.rsplit("\n", 1)[-1]
            for done in self.made("investigate")
            if done.text
        ]
        nothing = ("Not found", "Nothing", "Error", "Only ", "Call this once more")
        results = [text for text in texts if not text.startswith(nothing)]
        return [self._as_written(text) for text in dict.fromkeys(results)]

    def _as_written(self, text: str) -> str:
        """Return a statement, or by chance one with another value of the same form."""
        if self.policy.wrong_notes <= 0 or not self.chance(
            self.policy.wrong_notes, "wrong note", text
        ):
            return text
        for need in self.task.needs:
            for _, _, value in statements(text, need):
                return text.replace(value, _turned(value))
        return text

    def _searches(self, unknown: list[str]) -> Move | None:
        """Ask the memory for what it does not know, each subject once."""
        if "memory_search" not in self.tools or self.ignores:
            return None
        asked = {
            str(done.arguments.get("query")) for done in self.made("memory_search")
        }
        new = [
            need
            for need in unknown
            if self._query(need) not in asked
            and not self._claims(need)
            and self.chance(self.policy.tool_use, "search", need)
        ]
        if not new:
            return None
        queries = dict.fromkeys(map(self._query, new))
        return Move(
            self.says(), tuple(("memory_search", {"query": query}) for query in queries)
        )

    def _query(self, need: str) -> str:
        """Return what it searches for: the subject, or that without its last word, the one that
        tells it from others.
        """
        bare = self.policy.bare_queries > 0 and self.chance(
            self.policy.bare_queries, "bare", need
        )
        return need.rsplit(" ", 1)[0] if bare else need

    def _finds_out(self, unknown: list[str]) -> Move | None:
        """Find out by itself, one after another; what another has reserved is left to that one, for
        a time.
        """
        for need in unknown:
            if waits := self._blocked(need):
                return waits
            if self._gave_up(need) or self._reserved(need):
                continue
            if self._has_to_reserve(need):
                return Move(self.says(), self._reserving(need))
            return Move(self.says(), (("investigate", {"subject": need}),))
        return None

    def _blocked(self, need: str) -> Move | None:
        """Report what only somebody else can decide, or wait where it is reported already. An agent
        that said that it is blocked and was told to go on tries again.
        """
        refused = [
            done
            for done in self.made("investigate")
            if done.arguments.get("subject") == need and done.text
        ]
        if not refused or "Only " not in str(refused[-1].text):
            return None
        if self._times_blocked(need) >= len(refused):
            return None
        question = f"needs a decision on {need}"
        is_reported = any(
            question in message.text
            for message in self.seen.messages
            if message.label in ("view", "wake")
        )
        if (
            not is_reported
            and "report_blocker" in self.tools
            and not self.made("report_blocker")
        ):
            return Move(
                self.says(),
                (("report_blocker", {"text": f"{self.task.name} {question}"}),),
            )
        if (
            "report_blocker" in self.tools
        ):  # the answer may come while it works, or be found when it looks
            if works := self._works({}, []):
                return works
            if (
                "memory_search" in self.tools
                and not self.ignores
                and self._looked(need) < LOOKS
            ):
                return Move(
                    self.says(),
                    (("memory_search", {"query": self._query(need)}),),
                    takes=PATIENCE,
                )
        return Move(
            self.says(f"Blocked: {self.task.name} {question}."),
            blocked=f"{self.task.name} {question}",
        )

    def _times_blocked(self, need: str) -> int:
        """Return how often it has said that this keeps it."""
        replies = (
            message.text
            for message in self.seen.messages
            if message.role == "assistant"
        )
        return sum(
            text.startswith("Blocked: ") and f"a decision on {need}" in text
            for text in replies
        )

    def _looked(self, need: str) -> int:
        """Return how often it has searched for this."""
        query = self._query(need)
        return len(
            [
                done
                for done in self.made("memory_search")
                if done.arguments.get("query") == query
            ]
        )

    def _claims(self, need: str) -> bool:
        """Return whether it claims what it is about to find out."""
        able = "claim" in self.tools and self.policy.claims and not self.ignores
        return able and self.chance(self.policy.tool_use, "claim", need)

    def _reserving(self, need: str) -> tuple[tuple[str, dict[str, object]], ...]:
        """Reserve it, then look whether it is known: in this order, so that nobody finds it out in
        between.
        """
        claim: tuple[str, dict[str, object]] = ("claim", {"work": self._work(need)})
        looks = "memory_search" in self.tools and self.chance(
            self.policy.tool_use, "search", need
        )
        return (
            (claim, ("memory_search", {"query": self._query(need)}))
            if looks
            else (claim,)
        )

    def _work(self, need: str) -> str:
        """Return how it calls the work of finding this out."""
        otherwise = self.policy.claims_otherwise > 0 and self.chance(
            self.policy.claims_otherwise, "claim words", need
        )
        return f"looking into {need}" if otherwise else f"find out {need}"

    def _tried(self, need: str) -> list[Done]:
        """Return its attempts to claim this."""
        work = self._work(need)
        return [
            done for done in self.made("claim") if done.arguments.get("work") == work
        ]

    def _has_to_reserve(self, need: str) -> bool:
        tried = self._tried(need)
        return (
            self._claims(need)
            and len(tried) < ASKS
            and not (tried and _is_mine(tried[-1]))
        )

    def _reserved(self, need: str) -> bool:
        """Return whether another was finding this out when it last asked. It asks so often and no
        more: an answer that is late, or that it did not take in, is not waited for.
        """
        tried = self._tried(need)
        return bool(tried) and not _is_mine(tried[-1]) and len(tried) < ASKS

    def _works(self, known: dict[str, str | None], unknown: list[str]) -> Move | None:
        if len(self.made("work")) < self.task.steps and not (
            self.task.acts and unknown
        ):
            arguments: dict[str, object] = {"task": self.task.name}
            if self.task.acts:
                arguments["using"] = _using(known)
            return Move(self.says(), (("work", arguments),))
        waits = [need for need in unknown if self._reserved(need)]
        if not waits:
            return None
        # Everything else is done, or waits for what others are finding out: ask again in a while.
        return Move(
            self.says(),
            tuple(chain.from_iterable(map(self._reserving, waits))),
            takes=PATIENCE,
        )

    def _hands_in(self, known: dict[str, str | None]) -> Move | None:
        if self.made("submit") or not (self.task.needs or self.task.steps):
            return None
        return Move(
            self.says(), (("submit", {"task": self.task.name, "using": _using(known)}),)
        )

    def _ends(self, known: dict[str, str | None]) -> Move:
        handed = self.made("submit")
        product = (
            (handed[-1].text or "").removeprefix("Handed in.").strip() if handed else ""
        )
        findings = " ".join(self._found())
        relayed = " ".join(self._says_again(known)) if self.task.passes else ""
        report = " ".join(
            piece
            for piece in (f"{self.task.name} is done.", product, findings, relayed)
            if piece
        )
        return Move(self.says(report))

    def _says_again(self, known: dict[str, str | None]) -> Iterator[str]:
        """Yield what it was told in its own words, sometimes wrongly."""
        for need, value in known.items():
            if value is not None:
                slips = self.policy.slip > 0 and self.chance(
                    self.policy.slip, "slip", need
                )
                text = (
                    "".join(self.random("slip", need).sample(value, len(value)))
                    if slips
                    else value
                )
                yield f"{need[:1].upper()}{need[1:]} is {text}."

    # -- who gives out work --

    def coordinate(self) -> Move:
        """Give out stage after stage, and wait for each."""
        if decides := self._decides():
            return decides
        stages, progress = self.task.stages, len(self.made("spawn_agent"))
        waited = [
            done
            for done in self.made("wait")
            if done.text and not done.text.startswith("Nothing has ended")
        ]
        spawned = 0
        for number, stage in enumerate(stages):
            spawned += len(stage)
            if progress < spawned:
                return self._gives_out(stage, number)
            if len(waited) <= number:
                return Move(self.says(), (("wait", {}),))
        return Move(
            self.says(f"{self.task.name}: all {progress} tasks have come back.")
        )

    def _decides(self) -> Move | None:
        """Decide what needs a decision, if it may, and write the decision for all."""
        decisions = {
            str(done.arguments.get("subject")): done.text or ""
            for done in self.made("decide")
        }
        written = {str(done.arguments.get("body")) for done in self.made("append")}
        for message in self.seen.messages:
            if message.label not in ("wake", "view", "capsule"):
                continue
            for head, need in _QUESTION.findall(message.text):
                if "decide" in self.tools and need not in decisions:
                    return Move(self.says(), (("decide", {"subject": need}),))
                answer = decisions.get(need, "not yours")
                if (
                    "append" in self.tools
                    and "not yours" not in answer
                    and answer not in written
                ):
                    note = _note("decisions/all", answer, "critical") | {
                        "supersedes": head
                    }
                    return Move(self.says(), (("append", note),))
        return None

    def _gives_out(self, stage: tuple[tuple[str, str], ...], number: int) -> Move:
        calls: list[tuple[str, dict[str, object]]] = []
        if number == 0 and "append" in self.tools and not self.made("append"):
            plan = "; ".join(
                f"{agent}: {text.splitlines()[0]}"
                for name in self.task.stages
                for agent, text in name
            )
            calls.append(
                (
                    "append",
                    {
                        "namespace": f"projects/{self._project()}",
                        "body": plan,
                        "topic": "plan",
                    },
                )
            )
        calls += [
            ("spawn_agent", {"agent": agent, "task": text}) for agent, text in stage
        ]
        return Move(self.says(), tuple(calls))

    def _project(self) -> str:
        text = next(
            message.text for message in self.seen.messages if message.label == "task"
        )
        match = re.search(r"\(Project: ([a-z0-9_-]+)", text)
        return match[1] if match else "notes"


# -- Reading ---------------------------------------------------------------------------


@lru_cache(256)
def read_task(text: str) -> Task:
    """Parse a task's text. Only lines at its margin are the task's own; the rest is for others."""
    fields = dict(
        re.findall(
            r"^(Task|Needs|Findings go to|Steps|Pass on): (.+)$", text, re.MULTILINE
        )
    )
    needs = tuple(
        need.strip() for need in fields.get("Needs", "").split(";") if need.strip()
    )
    places = tuple(re.findall(r"(\S+) \((\w+)\)", fields.get("Findings go to", "")))
    steps = fields.get("Steps", "0")
    return Task(
        fields.get("Task", "?"),
        needs,
        places,
        int(steps.split(",")[0]),
        "every step" in steps,
        "Pass on" in fields,
        _stages(text),
    )


def _stages(text: str) -> tuple[tuple[tuple[str, str], ...], ...]:
    stages: list[list[tuple[str, list[str]]]] = []
    for line in text.splitlines():
        item = _ITEM.fullmatch(line)
        if re.fullmatch(r"Stage \d+:", line):
            stages.append([])
        elif item and stages:
            stages[-1].append((item[1], [item[2]]))
        elif stages and stages[-1] and line.startswith("  "):
            stages[-1][-1][1].append(line[2:])
    return tuple(
        tuple((agent, "\n".join(lines)) for agent, lines in stage) for stage in stages
    )


@lru_cache(1_024)
def _refused(text: str) -> frozenset[str]:
    """The subjects whose value was not the true one any more."""
    return (
        frozenset(re.findall(r"^Refused: (.+)\.$", text, re.MULTILINE))
        if "Refused: " in text
        else frozenset()
    )


def _done(messages: Iterable[Message]) -> Iterator[Done]:
    """The calls that were made, with what each gave."""
    calls: list[tuple[Call, list[str]]] = []
    waiting: dict[str, list[str]] = {}
    for message in messages:
        if message.role == "assistant":
            for call in message.calls:
                waiting[call.id] = []
                calls.append((call, waiting[call.id]))
        elif message.role == "tool" and message.answers in waiting:
            waiting[message.answers].append(message.text)
    for call, texts in calls:
        yield Done(call.name, dict(call.arguments), texts[0] if texts else None)


def _note(place: str, body: str, priority: str) -> dict[str, object]:
    return {"namespace": place, "body": body, "priority": priority}


def _is_mine(claim: Done) -> bool:
    return bool(claim.text) and " is yours until " in str(claim.text)


def _turned(value: str) -> str:
    """Return another value of the same form."""
    last = (
        "0123456789".replace(value[-1], "")
        if value[-1].isdigit()
        else "abcdef".replace(value[-1], "")
    )
    return value[:-1] + last[len(value) % len(last)]


def _using(known: dict[str, str | None]) -> str:
    return "; ".join(
        f"{need} = {value}" for need, value in known.items() if value is not None
    )
