"""Pages and verbs over runs cost what they show: what is older costs nothing."""

import asyncio
import re
from html import unescape

import httpx2
import pytest

import synapse
from orchestrator.cli import main
from orchestrator.runs.files import steps
from orchestrator.runs.files.folder import STEPS, Folder
from orchestrator.server import pages
from synapse.index import snapshot
from synapse.model.clock import DAY, now
from synapse.model.records import Record
from synapse.server.application import Serving, build
from synapse.server.limits import Limits
from synapse.testing.tools import FrozenClock
from synapse.trust.bearer import TokenFile, new_token

CHILDREN = 4
RUN, OLDER = re.compile(r'data-run="([^"]+)"'), re.compile(r'href="([^"]+)">Older')
PAGES = (
    "/", "/runs", "/runs?state=done", "/runs?agent=eng-a", "/runs?project=site&state=failed", "/runs?since=24h",
    "/runs/lead-recent-3", "/lanes", "/costs", "/costs?by=agent&since=24h", "/unread-results",
    "/v1/runs?limit=10", "/v1/runs?limit=10&agent=eng-a", "/v1/runs?since=24h", "/v1/runs?limit=10&department=web",
    "/v1/runs/lead-recent-3", "/v1/tree", "/v1/debts", "/v1/stats?since=24h", "/v1/waiting", "/v1/timeline/site?limit=9",
)  # fmt: skip
VERBS = ("ps", "ps --all --limit 10", "tree", "unread", "stats --since 24h", "inbox")


def work(mem, name, trees):
    """Leave trees of a lead and what it spawned, which have ended; one result of each is unread."""
    for tree in range(trees):
        top, batch = f"lead-{name}-{tree}", {}
        runs = [(top, "lead", None), *((f"eng-a-{name}-{tree}-{n}", "eng-a", top) for n in range(CHILDREN))]  # fmt: skip
        for id, agent, parent in runs:
            fields = {"run": id, "agent": agent, "epoch": 1, "state": "running", "task": "Do it"}
            fields |= {"parent": parent, "root": top, "project": "site", "department": "web"}
            end = {"run": id, "state": "ended", "status": "failed" if tree % 5 == 4 else "done"}
            end |= {"usage": {"input_tokens": 9, "output_tokens": 9}, "turns": 2, "cost": 0.1}
            for what in (fields, end):
                batch[f"{id} {len(batch)}"] = Record.new("run", agent, what, key=f"run:{id}")
        mem.store.commit.append_all(batch)
        read = [id for id, _, parent in runs[:-1] if parent]
        folder = Folder(mem.store.root, top).make()
        folder.record(
            STEPS,
            steps.dump(
                steps.Step(
                    0, 1, "message", {"text": "x", "why": "unread", "label": "plan", "read": read}
                )
            ),
        )


def filled(root, old):
    """Return a workspace in which ten trees ran today, and so many 60 days ago."""
    synapse.init(str(root)).close()
    mem = synapse.open(str(root), clock=FrozenClock(now() - 60 * DAY))
    for name in ("lead", "eng-a"):
        mem.register(synapse.Agent(name, role="engineer", read=("*",), write=("*",)))
    work(mem, "old", old)
    mem.store.clock.advance("60d")
    work(mem, "recent", 10)
    return mem


async def asked(mem, root, places, count):
    """Return of how many runs the fields were read for each page."""
    token, found = new_token(f"{root}-tokens", "operator"), {}
    app = build(Serving(mem, TokenFile(f"{root}-tokens"), limits=Limits(rate=0)))
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=app),
        base_url="http://127.0.0.1",
        headers={"authorization": f"Bearer {token}"},
    ) as client:
        for place in places:
            count.clear()
            answer = await client.get(place)
            assert answer.status_code == 200, (place, answer.text)
            found[place] = len(count)
    return found


@pytest.fixture
def count(monkeypatch):
    """What each run was whose fields were read."""
    read, run_from = [], snapshot._run_from

    def counted(row):
        read.append(row[2])
        return run_from(row)

    monkeypatch.setattr(snapshot, "_run_from", counted)
    return read


def test_pages_and_verbs_read_the_runs_that_they_show(tmp_path, count, monkeypatch, capsys):
    monkeypatch.setattr(pages, "ROWS", 40)
    costs = []
    for old in (60, 180):
        root = tmp_path / f"ws-{old}"
        mem = filled(root, old)
        found = asyncio.run(asked(mem, root, PAGES, count))
        mem.close()
        for verb in VERBS:
            count.clear()
            assert main(["--root", str(root), *verb.split()]) == 0, capsys.readouterr()
            found[verb] = len(count)
        costs.append(found)
    few, many = costs
    assert few == many
    assert few["/v1/runs?limit=10"] == 10
    assert few["/runs"] > 10 * CHILDREN
    assert few["unread"] >= 10
    assert few["ps"] == 10


def test_rows_are_turned_to_until_the_oldest(tmp_path):
    root = tmp_path / "ws"
    mem = filled(root, 60)
    token = new_token(f"{root}-tokens", "operator")
    app = build(Serving(mem, TokenFile(f"{root}-tokens"), limits=Limits(rate=0)))

    async def walk():
        shown, place = [], "/runs?state=done&agent=eng-a"
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=app),
            base_url="http://127.0.0.1",
            headers={"authorization": f"Bearer {token}"},
        ) as client:
            while place:
                text = (await client.get(place)).text
                shown.append(RUN.findall(text))
                older = OLDER.search(text)
                place = older and f"/runs{unescape(older[1])}"
        return shown

    found = asyncio.run(walk())
    mem.store.refresh()
    with mem.store.snapshot() as snap:
        expected = [run["run"] for run in snap.runs(agent="eng-a") if run["status"] == "done"]
    assert [id for page in found for id in page] == expected
    assert len(found) == 2
    mem.close()
