"""One step of an agent of the cast: its policy, what it reads from its prompt, and what it notes.

`worker` and `coordinator` build on it; it knows no memory and no scenario.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import NamedTuple

from orchestrator.engines.protocol import Call, Message
from orchestrator.engines.scripted import Move, Seen
from scenarios.data.schema import Size
from scenarios.play.agents.statements import UNNAMED, in_dispute, statements
from scenarios.play.world.task_text import read_task, refused
from scenarios.play.world.truth import drawn, filler, noise

OWN = 1_000  # what it found out itself weighs more than anybody's word
TRIES = 2  # times that it tries to find out what fails
# tools that are no part of a memory
WORLD = ("work", "investigate", "submit", "decide")
CHATTER = 40  # words of a note on progress
# by the word for a role
AUTHORITY = {"CTO": 100, "project": 80, "engineer": 60, "QA": 60, "specialist": 40}


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


class Done(NamedTuple):
    """A call that was made, and what it gave; None while nothing came."""

    name: str
    arguments: dict[str, object]
    text: str | None


class Part:
    """One step of one agent: what it was shown, what it has done, what it notes."""

    def __init__(self, policy: Policy, seed: int, seen: Seen) -> None:
        self.policy, self.seed, self.seen = policy, seed, seen
        parsed = seen.system.split(None, 12)
        self.me = parsed[2].strip(",.")
        self.authority = next(
            (AUTHORITY[token.strip(",.")] for token in parsed if token.strip(",.") in AUTHORITY), 60
        )
        # who reads nothing of a memory does not ask it either
        self.ignores = policy.p_read <= 0
        self.tools = {tool.name: tool.description for tool in seen.tools}
        self.done = list(_done(seen.messages))
        text = next(message.text for message in seen.messages if message.label == "task")
        self.task = read_task(text)
        self.length = sum(len(message.text) for message in seen.messages) // 4
        self.own = {
            call.id for message in seen.messages for call in message.calls if call.name in WORLD
        }

    def random(self, *about: object) -> Random:
        return Random(f"{self.seed} {self.me} {self.task.name} {self.seen.turn} {about}")

    def chance(self, p: float, *about: object) -> bool:
        """Return whether an event of this probability happens; the same answer for the same
        event.
        """
        return p >= 1 or Random(f"{self.seed} {self.me} {self.task.name} {about}").random() < p

    def says(self, words: str = "") -> str:
        size = drawn(self.policy.output, self.random("output"))
        return f"{words}\n\n{filler(size)}" if words else filler(size)

    def made(self, name: str) -> list[Done]:
        return [done for done in self.done if done.name == name]

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
            if own and subject in refused(message.text):
                best = value = None  # what it used was not true any more
            if message.role != "assistant":
                for rank, when, statement in statements(message.text, subject):
                    weight = OWN if own else rank
                    if (best is None or (weight, at, when) >= best) and self._takes_in(
                        message, offset, subject, statement
                    ):
                        best, value = (weight, at, when), statement
                        doubted = not own and (
                            UNNAMED < rank < self.authority or in_dispute(message.text, statement)
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
        return self.chance(self.policy.heeds, "heeds", subject) and not self._gave_up(subject)

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
        return tuple(("append", append_note(namespace, note, priority)) for note in notes)

    def _place(self) -> tuple[str, str]:
        """Return where its notes go, and with what priority."""
        return self.task.places[0] if self.task.places else ("status/notes", "info")

    def _chats(self, move: Move) -> Move:
        """Now and then a note on how far it is goes beside a call. It takes no turn of its own,
        also where findings do: the least that it can cost those who offer a place to write to.
        """
        if "append" not in self.tools or not move.calls or move.takes or self.policy.chatter <= 0:
            return move
        random = self.random("chatter")
        if random.random() >= self.policy.chatter:
            return move
        note = append_note(self._place()[0], noise(CHATTER, random), "info")
        return move._replace(calls=(("append", note), *move.calls))

    def _sharing(self, notes: tuple[tuple[str, dict[str, object]], ...], move: Move) -> Move:
        """Write them down: beside the next call, where the tool asks for that and there is one that
        need not wait; else before it.
        """
        if not notes:
            return move
        batches = "beside" in self.tools["append"] and self.chance(self.policy.beside, "beside")
        if batches and move.calls and not move.takes:
            return move._replace(calls=(*notes, *move.calls))
        return Move(self.says(), notes)

    def _found(self) -> list[str]:
        """Return the statements that its own investigations gave, as it writes them down: now and
        then wrongly.
        """
        texts = [done.text.rsplit("\n", 1)[-1] for done in self.made("investigate") if done.text]
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

    def _times_blocked(self, need: str) -> int:
        """Return how often it has said that this keeps it."""
        replies = (message.text for message in self.seen.messages if message.role == "assistant")
        return sum(
            text.startswith("Blocked: ") and f"a decision on {need}" in text for text in replies
        )


def _done(messages: Iterable[Message]) -> Iterator[Done]:
    """Yield the calls that were made, with what each gave."""
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


def append_note(place: str, body: str, priority: str) -> dict[str, object]:
    return {"namespace": place, "body": body, "priority": priority}


def _turned(value: str) -> str:
    """Return another value of the same form."""
    last = (
        "0123456789".replace(value[-1], "")
        if value[-1].isdigit()
        else "abcdef".replace(value[-1], "")
    )
    return value[:-1] + last[len(value) % len(last)]
