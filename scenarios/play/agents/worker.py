"""An agent of the cast that does a task: searches, finds out, works, hands in. `cast` calls it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from orchestrator.engines.scripted import Move
from scenarios.play.agents.part import Done, Part

LOOKS = 6  # times that it looks for a decision
# times that it asks for what another is finding out, before it does that itself
ASKS = 3
PATIENCE = 60.0  # seconds until an agent looks again for what another is finding out


class Worker(Part):
    """One step of an agent that does a task."""

    def move(self) -> Move:
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

    def _searches(self, unknown: list[str]) -> Move | None:
        """Ask the memory for what it does not know, each subject once."""
        if "memory_search" not in self.tools or self.ignores:
            return None
        asked = {str(done.arguments.get("query")) for done in self.made("memory_search")}
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
        return Move(self.says(), tuple(("memory_search", {"query": query}) for query in queries))

    def _query(self, need: str) -> str:
        """Return what it searches for: the subject, or that without its last word, the one that
        tells it from others.
        """
        bare = self.policy.bare_queries > 0 and self.chance(self.policy.bare_queries, "bare", need)
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
        if not is_reported and "report_blocker" in self.tools and not self.made("report_blocker"):
            return Move(
                self.says(), (("report_blocker", {"text": f"{self.task.name} {question}"}),)
            )
        # the answer may come while it works, or be found when it looks
        if "report_blocker" in self.tools:
            if works := self._works({}, []):
                return works
            if "memory_search" in self.tools and not self.ignores and self._looked(need) < LOOKS:
                return Move(
                    self.says(), (("memory_search", {"query": self._query(need)}),), takes=PATIENCE
                )
        return Move(
            self.says(f"Blocked: {self.task.name} {question}."),
            blocked=f"{self.task.name} {question}",
        )

    def _looked(self, need: str) -> int:
        """Return how often it has searched for this."""
        query = self._query(need)
        return len(
            [done for done in self.made("memory_search") if done.arguments.get("query") == query]
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
        looks = "memory_search" in self.tools and self.chance(self.policy.tool_use, "search", need)
        return (claim, ("memory_search", {"query": self._query(need)})) if looks else (claim,)

    def _work(self, need: str) -> str:
        """Return how it calls the work of finding this out."""
        otherwise = self.policy.claims_otherwise > 0 and self.chance(
            self.policy.claims_otherwise, "claim words", need
        )
        return f"looking into {need}" if otherwise else f"find out {need}"

    def _tried(self, need: str) -> list[Done]:
        """Return its attempts to claim this."""
        work = self._work(need)
        return [done for done in self.made("claim") if done.arguments.get("work") == work]

    def _has_to_reserve(self, need: str) -> bool:
        tried = self._tried(need)
        return self._claims(need) and len(tried) < ASKS and not (tried and _is_mine(tried[-1]))

    def _reserved(self, need: str) -> bool:
        """Return whether another was finding this out when it last asked. It asks so often and no
        more: an answer that is late, or that it did not take in, is not waited for.
        """
        tried = self._tried(need)
        return bool(tried) and not _is_mine(tried[-1]) and len(tried) < ASKS

    def _works(self, known: dict[str, str | None], unknown: list[str]) -> Move | None:
        if len(self.made("work")) < self.task.steps and not (self.task.acts and unknown):
            arguments: dict[str, object] = {"task": self.task.name}
            if self.task.acts:
                arguments["using"] = _using(known)
            return Move(self.says(), (("work", arguments),))
        waits = [need for need in unknown if self._reserved(need)]
        if not waits:
            return None
        # Everything else is done, or waits for what others are finding out: ask again in a while.
        return Move(
            self.says(), tuple(chain.from_iterable(map(self._reserving, waits))), takes=PATIENCE
        )

    def _hands_in(self, known: dict[str, str | None]) -> Move | None:
        if self.made("submit") or not (self.task.needs or self.task.steps):
            return None
        return Move(self.says(), (("submit", {"task": self.task.name, "using": _using(known)}),))

    def _ends(self, known: dict[str, str | None]) -> Move:
        handed = self.made("submit")
        product = (handed[-1].text or "").removeprefix("Handed in.").strip() if handed else ""
        findings = " ".join(self._found())
        relayed = " ".join(self._says_again(known)) if self.task.passes else ""
        report = " ".join(
            piece for piece in (f"{self.task.name} is done.", product, findings, relayed) if piece
        )
        return Move(self.says(report))

    def _says_again(self, known: dict[str, str | None]) -> Iterator[str]:
        """Yield what it was told in its own words, sometimes wrongly."""
        for need, value in known.items():
            if value is not None:
                slips = self.policy.slip > 0 and self.chance(self.policy.slip, "slip", need)
                text = (
                    "".join(self.random("slip", need).sample(value, len(value))) if slips else value
                )
                yield f"{need[:1].upper()}{need[1:]} is {text}."


def _is_mine(claim: Done) -> bool:
    return bool(claim.text) and " is yours until " in str(claim.text)


def _using(known: dict[str, str | None]) -> str:
    return "; ".join(f"{need} = {value}" for need, value in known.items() if value is not None)
