"""An agent of the cast that gives out tasks and decides what others ask. `cast` calls it."""

from __future__ import annotations

import re

from orchestrator.engines.scripted import Move
from scenarios.play.agents.part import Part, append_note

_QUESTION = re.compile(
    (
        r"^- blockers/\S+ (syn-[0-9-]+) .*\n +> Blocked: \S+ needs a decision on"
        r" ([^\n.(]+[^\n.( ])"
    ),
    re.MULTILINE,
)


class Coordinator(Part):
    """One step of an agent that gives out work and decides."""

    def move(self) -> Move:
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
        return Move(self.says(f"{self.task.name}: all {progress} tasks have come back."))

    def _decides(self) -> Move | None:
        """Decide what needs a decision, if it may, and write the decision for all."""
        decisions = {
            str(done.arguments.get("subject")): done.text or "" for done in self.made("decide")
        }
        written = {str(done.arguments.get("body")) for done in self.made("append")}
        for message in self.seen.messages:
            if message.label not in ("wake", "view", "capsule"):
                continue
            for head, need in _QUESTION.findall(message.text):
                if "decide" in self.tools and need not in decisions:
                    return Move(self.says(), (("decide", {"subject": need}),))
                answer = decisions.get(need, "not yours")
                if "append" in self.tools and "not yours" not in answer and answer not in written:
                    note = append_note("decisions/all", answer, "critical") | {"supersedes": head}
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
                    {"namespace": f"projects/{self._project()}", "body": plan, "topic": "plan"},
                )
            )
        calls += [("spawn_agent", {"agent": agent, "task": text}) for agent, text in stage]
        return Move(self.says(), tuple(calls))

    def _project(self) -> str:
        text = next(message.text for message in self.seen.messages if message.label == "task")
        match = re.search(r"\(Project: ([a-z0-9_-]+)", text)
        return match[1] if match else "notes"
