"""The pages of runs: trees, one run, lanes in time, costs, unread results, wakes.

For the operator alone, as the verbs of the shell are. Each shows what a report says.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.responses import RedirectResponse

from orchestrator.engines.choice import NotNamed
from orchestrator.reports.changes import changes
from orchestrator.reports.details import detail, receipt_json
from orchestrator.reports.lanes import busiest, lanes
from orchestrator.reports.rows import Fields, RunRow, Source, find_run, find_runs, run_rows
from orchestrator.reports.sums import BY, DAY, FAILED, NONE, span_of_day, sums_of
from orchestrator.reports.trees import Node, trees
from orchestrator.reports.unread import SINCE, unread_runs
from orchestrator.reports.wakes import find_wakes
from orchestrator.server import cards
from orchestrator.server.drawing import draw
from orchestrator.server.source import Asked, asked_to_stop, begin_of, question, stop
from orchestrator.server.texts import FILTERS
from orchestrator.spend.limits import LimitReached
from orchestrator.waiting.answers import answer as answered
from orchestrator.waiting.questions import questions_of, tree_of
from synapse.errors import Conflict, InvalidEntry, NotFound
from synapse.model import clock
from synapse.model.dates import since as parse_since
from synapse.server.callers import Operator, gate_of
from synapse.server.pages.frame import Card, Link, add_links, frame_of
from synapse.server.pages.route import form, pages
from synapse.system.json import dumps

router = pages()
HERE = Path(__file__).parent
TREES, ROWS, LANES, STEPS, WAKES = 25, 200, 60, 400, 300
LINKS = (
    Link("/runs", "Runs", "r", 52, "Work", operator=True, own_tab="Trees"),
    Link("/lanes", "Lanes", "l", 53, operator=True, tab_of="/runs"),
    Link("/unread-results", "Unread results", "u", 54, operator=True, tab_of="/runs"),
    Link("/wakes", "Wakes", "w", 55, operator=True, tab_of="/runs"),
    Link("/costs", "Costs", "c", 56, "Work", operator=True),
)
STATES = {"failed": FAILED, "running": ("running", "closed", "orphaned")}
FILTERED = ("state", "agent", "project", "department", "model", "role", DAY)
Text = Annotated[str, Query(max_length=200)]
Before = Annotated[int | None, Query(ge=0, le=2**53)]
Form = Annotated[dict[str, str], Depends(form)]


def install(app: FastAPI) -> None:
    """Add the pages, their links, and the cards of the overview."""
    frame = frame_of(app)
    frame.add_templates(HERE / "templates")
    frame.add_assets(HERE / "static")
    frame.runs = "/runs/"
    frame.templates.filters.update(FILTERS)
    add_links(frame, LINKS)
    for order, make in enumerate((cards.working, cards.spending, cards.waiting)):
        frame.add_card(Card(order, make))
    app.include_router(router)


@router.get("/runs")
def runs(request: Request, asked: Asked, since: Text = "", before: Before = None) -> Response:
    """Show the newest trees; with filters the runs that they let through."""
    filters = {
        name: value for name in FILTERED if (value := request.query_params.get(name, "")[:200])
    }
    older = None
    if filters or since:
        rows, older = _filtered(asked, filters, since, before)
        nodes = [(0, _alone(row)) for row in rows]
        more = False
    else:
        newest = trees(asked, limit=TREES + 1)
        more = len(newest) > TREES
        nodes = [pair for top in reversed(newest[-TREES:]) for pair in top.walk()]
    return frame_of(request).answer(
        request,
        "runs/list.html",
        nodes=nodes,
        more=more,
        older=older,
        wanted={**filters, **({"since": since} if since else {})},
    )


def _filtered(
    asked: Source, wanted: dict[str, str], since: str, before: int | None
) -> tuple[list[RunRow], int | None]:
    """Return the newest runs since then with these fields, before a place in the log, and where
    older ones go on.
    """
    fields: dict[str, Any] = {name: wanted.get(name) for name in (*BY, DAY, "state")}
    fields["since"] = parse_since(since or None, asked.now())
    if fields["project"] == NONE:
        fields |= {"project": None, "no_project": True}
    if (day := fields.pop(DAY)) is not None:
        try:
            began, fields["until"] = span_of_day(asked, day)
        except ValueError:
            return [], None
        fields["since"] = max(began, fields["since"] or 0)
    states = STATES.get(str(fields["state"]), (fields["state"],))
    if fields["state"] in STATES["running"]:
        fields["state"] = "running"
    elif fields["state"] not in (None, "waiting"):
        fields |= {"state": "ended", "statuses": dumps(states)}
    newest = find_runs(asked, **fields, before=before, limit=ROWS + 1)
    rows = run_rows(asked, newest[:ROWS])
    older = newest[ROWS - 1]["seq"] if len(newest) > ROWS else None
    return [row for row in rows if states == (None,) or row.state in states], older


def _alone(row: RunRow) -> Node:
    return Node(row, (), 1, row.turns, row.tokens, row.usage.estimated, row.cost, row.took)


@router.get("/runs/{id}")
def run(request: Request, id: str, asked: Asked) -> Response:
    """Show one run."""
    return _run_page(request, asked, find_run(asked, id))


def _run_page(request: Request, asked: Source, fields: Fields) -> Response:
    report = detail(asked, fields)
    (tree,) = trees(asked, str(fields["run"]))
    return frame_of(request).answer(
        request,
        "runs/run.html",
        found=report,
        tree=tree,
        steps=report.steps[-STEPS:],
        receipt=receipt_json(asked, fields),
        stopping=asked_to_stop(asked, str(fields["run"])),
        questions=questions_of(asked, fields) if tree_of(asked, fields) else [],
        begins=begin_of(request) is not None and question(asked, fields, "") is not None,
    )


@router.get("/runs/{id}/since")
def changed(request: Request, id: str, asked: Asked) -> Response:
    """Show what would be different now: a part, for it looks at all that came since."""
    fields = find_run(asked, id)
    try:
        found = changes(asked, gate_of(request).memory, fields)
    except NotFound:
        found = None
    return frame_of(request).answer(
        request,
        "runs/since.html",
        changed=found,
        agent=str(fields["agent"]),
        at=clock.seconds(found.at if found else fields["at"]),
    )


@router.post("/runs/{id}/ask")
def ask(request: Request, id: str, asked: Asked, memory: Operator, fields: Form) -> Response:
    """Begin a run that answers a question about the result of another. Where no supervisor is
    beside this server, or the run is a client's own, the question stands in the agent's next
    prompt.
    """
    run, text = find_run(asked, id), fields.get("body", "")
    begin, task = begin_of(request), question(asked, run, text, "once" in fields)
    if begin is None or task is None:
        memory.tell(f"agent:{run['agent']}", text, priority="important", re=run.get("entry"))
        name, did = str(run["run"]), "asked"
    else:
        if run["state"] == "running":
            raise Conflict(f"{run['run']} has not ended: tell its agent instead")
        if not text.strip():
            raise InvalidEntry("a question has words")
        try:
            name, did = begin(task).id, "begun"
        except LimitReached as limit:
            raise Conflict(f"no run may begin now: {limit}") from limit
        except NotNamed as error:
            raise Conflict(
                f"no engine is named for {run['agent']}, and the daemon has no key: begin it again"
                " with one, or with `orchestrator up --serve --engine NAME`"
            ) from error
    return RedirectResponse(f"/runs/{quote(name, safe='')}?did={did}", 303)


@router.post("/runs/{id}/answer")
def answer(id: str, asked: Asked, memory: Operator, fields: Form) -> Response:
    """Answer what a run waits for; its tree goes on in the process that can drive it."""
    run = find_run(asked, id)
    answered(memory, asked, str(run["run"]), fields.get("body", ""))
    return RedirectResponse(f"/runs/{quote(str(run['run']), safe='')}?did=answered", 303)


@router.post("/runs/{id}/stop")
def end(request: Request, id: str, asked: Asked, fields: Form) -> Response:
    """Ask for the end of a run and of all below it."""
    name, _ = stop(asked, id, fields.get("reason", ""), None)
    return RedirectResponse(f"/runs/{quote(name, safe='')}", 303)


@router.get("/lanes")
def timeline(request: Request, asked: Asked, run: Text = "") -> Response:
    """Show the runs of a tree side by side; the newest tree unless one is named."""
    newest = trees(asked, run or None, limit=8)
    top = newest[0] if run and newest else newest[-1] if newest else None
    nodes = [node for _, node in top.walk()] if top else []
    side = lanes(asked, [node.row for node in nodes])
    return frame_of(request).answer(
        request,
        "runs/lanes.html",
        top=top,
        others=[node for node in reversed(newest) if node is not top],
        drawn=draw(side[:LANES]),
        hidden=max(len(side) - LANES, 0),
        windows=busiest(side),
        names={lane.row.id: str(lane.row.fields["agent"]) for lane in side},
    )


@router.get("/costs")
def costs(request: Request, asked: Asked, by: Text = DAY, since: Text = "30d") -> Response:
    """Show what runs took, by day or by another of their fields; since always where it is empty."""
    by = by if by in (*BY, DAY) else DAY
    floor = parse_since(since or None, asked.now()) or 0
    rows = run_rows(asked, find_runs(asked, since=floor))
    result = sums_of(asked, by, floor, rows)
    days = result if by == DAY else sums_of(asked, DAY, floor, rows)
    points = [
        [parse_since(day.name, asked.now()) or 0, day.cost or 0.0, day.tokens]
        for day in days.groups
    ]

    def link(name: str, **more: str) -> str:
        words = {by: name, "since": since, **more}
        return "/runs?" + urlencode({key: text for key, text in words.items() if text})

    return frame_of(request).answer(
        request,
        "runs/costs.html",
        found=result,
        by=by,
        since=since,
        choices=(DAY, *BY),
        points=[[at // 1_000_000, cost, tokens] for at, cost, tokens in points],
        priced=result.all.cost is not None,
        link=link,
    )


@router.get("/unread-results")
def results(request: Request, asked: Asked, since: Text = SINCE) -> Response:
    """Show results that cost turns and that nobody read."""
    floor = parse_since(since or SINCE, asked.now()) or 0
    rows = run_rows(asked, unread_runs(asked, floor))
    costs = [row.cost for row in rows if row.cost is not None]
    return frame_of(request).answer(
        request,
        "runs/results.html",
        rows=rows,
        since=since or SINCE,
        tokens=sum(row.tokens for row in rows),
        cost=sum(costs) if costs else None,
    )


@router.get("/wakes")
def wakes(request: Request, asked: Asked, since: Text = "7d") -> Response:
    """Show how far critical entries got on their way into prompts."""
    rows = list(islice(find_wakes(asked, since or "7d"), WAKES + 1))
    return frame_of(request).answer(
        request, "runs/wakes.html", wakes=rows[:WAKES], since=since, more=len(rows) > WAKES
    )
