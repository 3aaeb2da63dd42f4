"""A team at work: CTO, lead, engineers side by side, QA, report. A YAML file says who takes part.
Nothing here knows how a run works inside.
Where the lead's engine is a model, its own tool calls drive the work. Where it is scripted or a
coding client, the lead writes a plan, and the plan does. A plan has a line for each task, and what
stands indented below it belongs to it:

- [eng-backend] Serve GET /v2/users; check it with the tests in api/.
  It has to answer within 100 ms.
- [eng-frontend] Draw the profile page.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from orchestrator.run_store import briefs
from orchestrator.runs import plans
from orchestrator.runs.plans import TOPIC, Part, parts
from orchestrator.runs.records import Run, name
from orchestrator.runs.task import MODES, PLAYED, Result, Task
from orchestrator.runs.task import Report as Report
from orchestrator.supervisor import Supervisor
from orchestrator.tools import calls
from synapse.errors import Forbidden, InvalidEntry, NotFound, SynapseError
from synapse.formats.keys import TEAM, strays
from synapse.log.accepted import INSTRUCTIONS, WAITING_FILE, counts
from synapse.system import yaml
from synapse.system.checks import checked, fields_fit
from synapse.system.ownership import unfit
from synapse.system.plain_files import open_file

# engines whose agents spawn and wait by themselves
MODELS = ("anthropic", "openai", "openai-chat")


@checked
class Team(NamedTuple):
    """Who works together. Engine and model are the supervisor's business, unless an agent's file
    names them. `memory_tools` (auto, always, never) is for a team that models drive; where nobody
    says otherwise, it is what the supervisor has. `tools` says by name what tools share, as
    synapse.yaml does.
    """

    lead: str
    engineers: tuple[str, ...]
    cto: str | None = None
    qa: str | None = None
    engine: str = "auto"
    models: Mapping[str, str] = {}
    script: str | None = None
    view_budget: int | str = "auto"
    max_tokens: int | None = None
    max_usd: float | None = None
    max_reply: int | None = None
    memory_tools: str | None = None
    tools: Mapping[str, Any] = {}

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str]) -> Team:
        """Return the team that a file describes."""
        if not isinstance(path, str | os.PathLike):
            raise InvalidEntry(
                f"path is {path!r:.60}: write where the file lies, such as team.yaml"
            )
        path = os.fspath(path)
        try:
            real = os.path.realpath(path)
            owner = os.stat(os.path.dirname(real)).st_uid
            with open(open_file(real), "rb") as file:
                problem = unfit(os.fstat(file.fileno()), owner)
                raw = file.read(1 << 20)
            text = raw.decode()
        except FileNotFoundError as error:
            raise NotFound(
                f"{path} is not there; `orchestrator init` writes an example", id=path
            ) from error
        except (OSError, ValueError) as error:  # no text, or no name of a file
            raise InvalidEntry(f"{path!r} cannot be read: {error}", path=path) from error
        try:
            if problem:
                raise InvalidEntry(f"it is not taken: {problem}")
            folder, name = os.path.split(real)
            if name in INSTRUCTIONS and not counts(folder, name, raw):
                raise InvalidEntry(f"it is not taken: {WAITING_FILE}")
            fields = yaml.load(text, depth=3, typed=True)
        except InvalidEntry as error:
            raise InvalidEntry(f"{path}: {error}", path=path) from None
        return team_of(fields, path)

    async def run(
        self, supervisor: Supervisor, brief: str, project: str = "general", once: bool = False
    ) -> Report:
        """Do what the brief asks for. With `once`, work that is under way or was just done is not
        done again; nor is that of a team whose process is gone before it came to its end.
        """
        fields_fit(self, "team")
        async with supervisor:
            engines = {}
            # before anything is spent on the others
            for id in (self.lead, *self.engineers, *filter(None, (self.cto, self.qa))):
                agent = await supervisor.memory_thread(supervisor.run_store.agent, id)
                engines[id] = supervisor.engine_pool.name_for(agent)
            work = _Work(self, supervisor, brief, project, once, engines[self.lead] in MODELS)
            return await work.to_its_end()


async def go_on(supervisor: Supervisor, root: Run) -> Report | None:
    """Go on with the team that began this run: each part of its work is the run that it was, or is
    begun now. None where no team did."""
    begun = root.task.team
    if not begun:
        return None
    team = Team(**{**begun["team"], "engineers": tuple(begun["team"]["engineers"])})
    about = begun["brief"], root.project, False, begun["has_model"]
    async with supervisor:
        return await _Work(team, supervisor, *about, root.id).to_its_end()


def team_of(fields: Mapping[str, Any], path: str = "team.yaml") -> Team:
    """Return the team that these fields describe; InvalidEntry lists what is wrong."""
    problems = [stray.text for stray in strays(fields, TEAM)]
    fields = {name: value for name, value in fields.items() if name in Team._fields}
    if fields.get("memory_tools") not in (None, *MODES):
        problems.append(f"memory_tools: write one of {', '.join(MODES)}")
    problems += [f"{name} is missing" for name in ("lead", "engineers") if not fields.get(name)]
    engineers = fields.get("engineers") or []
    if not isinstance(engineers, list):
        problems.append("engineers: write a list such as [eng-a, eng-b]")
    try:
        calls.declared(fields)
    except InvalidEntry as error:
        problems.append(str(error))
    models = fields.get("models") or {}
    if not isinstance(models, dict):
        problems.append("models: write `engine: model` lines")
    if problems:
        raise InvalidEntry(f"{path}: {'; '.join(problems)}", path=path, problems=problems)
    values = {name: value for name, value in fields.items() if value is not None}
    return Team(**(values | {"engineers": tuple(map(str, engineers)), "models": models}))


class _Work:
    """One brief on its way."""

    def __init__(
        self,
        team: Team,
        supervisor: Supervisor,
        brief: str,
        project: str,
        once: bool,
        has_model: bool,
        root: str | None = None,
    ) -> None:
        self.team = team
        self.supervisor = supervisor
        self.brief = brief
        self.project = project
        self.once = once
        self.has_model = has_model
        self.root = root
        self.runs: list[Result] = []

    async def to_its_end(self) -> Report:
        """Do what of the work is not done yet, and leave in the memory what came of it."""
        report = await (self.by_tools() if self.has_model else self.by_plan())
        on_thread, run_store = self.supervisor.memory_thread, self.supervisor.run_store
        tree = await on_thread(briefs.tree_of, run_store, report.runs)
        await on_thread(briefs.ended, run_store.memory, report.runs)
        lead = self.team.lead
        await on_thread(briefs.settle, run_store.memory, lead, self.project, report)
        return report._replace(tree=tree)

    def _begun(self) -> dict[str, Any]:
        """Return what whoever goes on with the team has to know."""
        team = self.team._asdict()
        return {"team": team, "brief": self.brief, "has_model": self.has_model}

    # -- by the lead's own tool calls --------------------------------------------------

    async def by_tools(self) -> Report:
        team = self.team
        if team.cto:
            text = (
                f"{self.brief}\n\nGive this project to {team.lead}, with all of it."
                f" {self._roster()}"
            )
        else:
            text = f"{self.brief}\n\n{self._roster()}"
        result = await self._do(team.cto or team.lead, text, memory_tools=team.memory_tools)
        descendants = await self.supervisor.memory_thread(
            lambda: self.supervisor.run_store.runs.all(root=result.run)
        )
        other_runs = [
            await self.supervisor.result(run)
            for run in reversed(descendants)
            if run.id != result.run and not run.running
        ]
        plan = await self.supervisor.memory_thread(
            plans.latest,
            self.supervisor.run_store.memory,
            team.lead,
            self.project,
            result.run,
            {run.id for run in descendants if run.agent == team.lead},
        )
        runs = (*other_runs, result)
        if result.played:
            return Report("blocked", result.text, runs, plan, _nobody(result))
        if not result.done:
            return Report(result.status, result.text, runs, plan, result.why)
        why = await self._missing(plan, descendants)
        return Report("blocked" if why else "done", result.text, runs, plan, why)

    async def _missing(self, plan: str | None, runs: Sequence[Run]) -> str:
        """Return which part of the work nobody did, though the first run says that it is done;
        empty for none.
        """
        team = self.team
        if plan is None:
            return (
                f"{team.lead} wrote no plan: there is no entry in projects/{self.project}"
                f" with the topic {TOPIC}"
            )
        engineer_runs = [run for run in runs if run.agent in team.engineers]
        if not engineer_runs:
            return f"nobody gave work to {' or '.join(team.engineers)}"
        if not any(run.status == "done" for run in engineer_runs):
            return _ended(engineer_runs[0])
        if not team.qa:
            return ""
        tests = [run for run in runs if run.agent == team.qa]
        if not tests:
            return f"nobody had {team.qa} test it"
        if tests[0].status != "done":  # the newest stands first
            return _ended(tests[0])
        return await self._unseen(
            [run.id for run in tests], [run.fields.get("entry") for run in engineer_runs]
        )

    def _roster(self) -> str:
        team = self.team
        checks = f" When they are done, {team.qa} tests." if team.qa else ""
        plan = f"as an entry in projects/{self.project} with the topic `{TOPIC}`"
        return (
            f"{team.lead} writes the plan {plan}, and gives the tasks to"
            f" {', '.join(team.engineers)}, side by side.{checks} In the end"
            f" {team.lead} reports."
        )

    # -- by the plan -------------------------------------------------------------------

    async def by_plan(self) -> Report:
        team, parent = self.team, None
        if team.cto:
            aim = (
                f"Set the goal and the limits of this project for {team.lead}, who plans"
                f" it:\n\n{self.brief}"
            )
            parent = (await self._do(team.cto, aim)).run
            if not _well(self.runs[-1]):
                return self._so_far(self.runs[-1])
        planned = await self._do(team.lead, self._planning(), parent, "plan")
        if not _well(planned):
            return self._so_far(planned)
        try:
            plan, text = await self._plan(planned)
        except Forbidden as error:
            return Report("blocked", str(error), tuple(self.runs), None, str(error))
        tasks = parts(text)
        if problem := self._problem(tasks):
            return Report("blocked", problem, tuple(self.runs), plan, problem.rstrip("."))
        results = await asyncio.gather(
            *(
                self._try(item.agent, item.task, planned.run, f"part {n}")
                for n, item in enumerate(tasks)
            )
        )
        self.runs += results
        waiting = next((result for result in results if result.waiting), None)
        if waiting is not None:  # what comes after it comes once it is answered
            return self._so_far(waiting, plan=plan)
        unseen = ""
        if team.qa:
            tested = await self._do(team.qa, self._testing(results), planned.run, "test", role="qa")
            unseen = (
                await self._unseen([tested.run], [result.entry for result in results])
                if tested.done
                else ""
            )
        report = await self._do(
            team.lead, self._reporting(results), parent or planned.run, "report"
        )
        return self._judged(report, plan, unseen)

    def _judged(self, report: Result, plan: str | None, unseen: str) -> Report:
        """Return what the team came to, once its lead has reported."""
        unfinished = next((result for result in self.runs if not _well(result)), None)
        if unfinished is not None:
            return self._so_far(unfinished, report.text, plan)
        if all(result.played for result in self.runs):
            return Report(PLAYED, report.text, tuple(self.runs), plan)
        nobody = next((result for result in self.runs if result.played), None)
        if nobody is not None:
            why = _nobody(nobody)
            return Report("blocked", report.text, tuple(self.runs), plan, why)
        return Report("blocked" if unseen else "done", report.text, tuple(self.runs), plan, unseen)

    async def _plan(self, planned: Result) -> tuple[str | None, str]:
        """Return the entry of the lead's plan, and its text. One that was played is no entry."""
        if planned.played:
            return None, planned.text
        plan: tuple[str, str] = await self.supervisor.memory_thread(
            plans.of_run, self.supervisor.run_store.memory, planned, self.team.lead, self.project
        )
        return plan

    async def _unseen(self, tests: Sequence[str], entries: Iterable[object]) -> str:
        """Return why these runs tested nothing: none of the results was in front of them. Empty
        where one was.
        """
        results = sorted({str(entry) for entry in entries if entry})
        unread = (
            await self.supervisor.memory_thread(self.supervisor.run_store.seen, tests, results)
            if results
            else ()
        )
        if unread or not results:
            return ""
        return (
            f"{self.team.qa} saw none of the results that it was to test ({', '.join(results)});"
            f" `orchestrator receipt {tests[-1]}` says why"
        )

    def _planning(self) -> str:
        return (
            f"Plan this project, and nothing else yet:\n\n{self.brief}\n\nYour engineers: "
            f"{', '.join(self.team.engineers)}. End with the plan, a line for each"
            f" task, all of them to be done side by"
            " side:\n- [AGENT] what to do, where, and how to check it"
        )

    def _problem(self, tasks: Iterable[Part]) -> str:
        """Return why nobody can begin with these tasks."""
        agents = {item.agent for item in tasks}
        strangers = sorted(agents - set(self.team.engineers))
        if strangers:
            return f"The plan names {', '.join(strangers)}, no engineer of this team."
        return "" if agents else "The plan has no line of the form `- [AGENT] TASK`."

    def _testing(self, made: Iterable[Result]) -> str:
        return (
            f"Test what the engineers of project {self.project} say they have"
            f" done:\n{_listed(made)}"
        )

    def _reporting(self, made: Iterable[Result]) -> str:
        tested = f"\nTested by {self.team.qa}: {_line(self.runs[-1])}" if self.team.qa else ""
        return (
            f"Report on project {self.project}. The memory has what came of each"
            f" task:\n{_listed(made)}{tested}\n\n"
            f"It was asked for:\n\n{self.brief}"
        )

    def _so_far(self, ended: Result, text: str = "", plan: str | None = None) -> Report:
        """Return the report of a project that this result keeps from being done."""
        who = ended.run or "a run that could not begin"
        why = (
            f"{who} is {ended.status}: {ended.why.rstrip('.')}"
            if ended.why
            else f"{who} is {ended.status}"
        )
        return Report(ended.status, text or ended.text or ended.why, tuple(self.runs), plan, why)

    # -- one run -----------------------------------------------------------------------

    async def _do(
        self, agent: str, text: str, parent: str | None = None, part: str = "", **about: Any
    ) -> Result:
        result = await self._try(agent, text, parent, part, **about)
        self.runs.append(result)
        return result

    async def _try(
        self, agent: str, text: str, parent: str | None, part: str, **bounds: Any
    ) -> Result:
        """Run a task, whatever becomes of it: one that may not begin is a result too. Its name
        follows from the first run and the part of the work, so that going on finds it."""
        team, id = self.team, self.root
        if parent is None:
            bounds |= {"max_tokens": team.max_tokens, "max_usd": team.max_usd}
            bounds |= {"team": self._begun()}
            if id is None:
                bounds["once"] = self.once or await self.supervisor.memory_thread(
                    briefs.is_interrupted, self.supervisor.run_store, agent, text, self.project
                )
        else:
            id = name(agent, self.root, "team", part)
        task = Task(
            text,
            agent,
            self.project,
            team.view_budget,
            tools=team.tools,
            max_reply=team.max_reply,
            **bounds,
        )
        try:
            result = await self.supervisor.spawn(task, parent=parent, id=id)
        except SynapseError as error:
            result = Result("refused", "", "", why=str(error))
        self.root = self.root or result.run
        return result if result.run else result._replace(why=f"{agent}: {result.why}")


def _well(result: Result) -> bool:
    """Return whether a team goes on after this result: it is done, or was played to its end."""
    return result.status in ("done", PLAYED)


def _nobody(result: Result) -> str:
    return f"{result.run} was played, and nobody did its part"


def _ended(run: Run) -> str:
    """Return how a run ended, and why."""
    why = str(run.fields.get("why") or "").rstrip(".")
    return f"{run.id} is {run.status}: {why}" if why else f"{run.id} is {run.status}"


def _listed(results: Iterable[Result]) -> str:
    return "\n".join(f"- {_line(result)}" for result in results)


def _line(result: Result) -> str:
    return f"{result.run or 'not begun'}: {result.status}, {result.entry or result.why}"
