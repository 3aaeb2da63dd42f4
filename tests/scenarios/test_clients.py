"""The scenario of real clients without the clients: its work, its scripted agents, and what records
come to.
"""

import json
import os
import ssl
import stat
import urllib.error
import urllib.request

import pytest

from orchestrator.engines.protocol import Call, Message, Tool
from orchestrator.engines.scripted import Seen
from scenarios import __main__ as suite
from scenarios.clients import figures, places, repository
from scenarios.clients.agents import Agents, Chances, asked_of
from scenarios.clients.repository import CELLS
from scenarios.clients.session import of_hooks

SITE = "https://127.0.0.1:1"
TOOLS = tuple(Tool(name, "", {}) for name in ("Agent", "Bash", "Edit", "Read", "WebFetch"))
CAREFUL = Chances(1.0, 0.0)


def agents(cell="after", seed=1, chances=CAREFUL):
    return Agents(seed, "/repo", CELLS[cell], chances, 0.0)


def asks(work, *messages):
    return Seen("", (Message("user", repository.task_text(work, SITE), "task"), *messages), TOOLS)


def given(text):
    return Message(
        "user",
        f"<system-reminder>\nSubagentStart hook additional context: {text}\n</system-reminder>",
        "task",
    )


# -- the work --------------------------------------------------------------------------


@pytest.mark.parametrize("cell", CELLS.values(), ids=str)
def test_the_tasks_share_what_the_cell_says(cell):
    for seed in range(20):
        one, two = repository.job(cell, seed).works
        assert len(set(one.needs) & set(two.needs)) == cell.shared
        assert (one.page == two.page) == bool(cell.shared)
        assert one.target != two.target


def test_a_value_stands_in_its_own_module_alone():
    for seed in range(20):
        job = repository.job(CELLS["after"], seed)
        texts = repository.sources(job.values)
        for name, limit in repository.MODULES.items():
            holders = [path for path, text in texts.items() if str(job.values[limit]) in text]
            assert holders == [f"shop/{name}.py"]
        assert not any(
            str(job.values[limit]) in text
            for limit in repository.PAGES.values()
            for text in texts.values()
        )


def test_no_task_says_a_value():
    job = repository.job(CELLS["after"], 3)
    for work in job.works:
        text = repository.task_text(work, SITE)
        assert not any(str(value) in text for value in job.values.values())


def test_a_sum_of_a_wrong_value_is_not_right():
    job = repository.job(CELLS["after"], 3)
    work = job.works[0]
    total = sum(job.values[name] for name in work.all_needs)
    assert repository.is_right(work, f"x\n{repository.line_of(work.name, total)}\ny", job.values)
    assert not repository.is_right(
        work, f"x\n{repository.line_of(work.name, total + 1)}\ny", job.values
    )


# -- the agents ------------------------------------------------------------------------


def test_an_agent_that_was_given_nothing_looks_for_all_of_it():
    work = repository.job(CELLS["after"], 1).works[0]
    ((tool, arguments),) = agents()(asks(work)).calls
    assert tool == "Bash"
    assert all(f"-e {name}" in arguments["command"] for name in work.needs)


def test_an_agent_looks_for_no_more_than_it_was_not_given():
    work = repository.job(CELLS["after"], 1).works[0]
    first, *others = work.needs
    ((_, arguments),) = agents()(asks(work, given(f"{first} is 1234.")))[1]
    assert f"-e {first}" not in arguments["command"]
    assert all(f"-e {name}" in arguments["command"] for name in others)


def test_an_agent_that_overlooks_what_it_was_given_looks_for_it():
    work = repository.job(CELLS["after"], 1).works[0]
    text = " ".join(f"{name} is 1234." for name in work.all_needs)
    blind = agents(chances=Chances(0.0, 0.0))
    assert blind(asks(work, given(text))) == blind(asks(work))
    assert agents()(asks(work, given(text))) != agents()(asks(work))


def test_a_result_of_a_hook_in_the_place_of_a_call_is_only_given():
    work = repository.job(CELLS["after"], 1).works[0]
    known = Message("tool", "".join(f"{name} = 1111\n" for name in work.needs), "work_obs", (), "1")
    url = f"{SITE}/{work.page}"
    call = Message("assistant", "", "work_out", (Call("2", "WebFetch", {"url": url}),))
    instead = Message(
        "tool", f"PreToolUse:WebFetch hook error: RATE_LIMIT is 2222.\n{url}", "work_obs", (), "2"
    )
    asked = asks(work, known, call, instead)
    # it has all, and goes to the module that it changes
    assert agents()(asked).calls[0][0] == "Read"
    assert agents(chances=Chances(0.0, 0.0))(asked).calls[0][0] == "WebFetch"


def test_what_an_agent_does_follows_from_its_request_alone():
    work = repository.job(CELLS["together"], 4).works[1]
    asked = asks(work, given(f"{work.needs[2]} is 4321."))
    degraded = Chances()
    one, two = agents("together", 4, degraded), agents("together", 4, degraded)
    one(asks(work))
    assert one(asked) == two(asked)


def test_the_lead_gives_the_tasks_out_as_the_cell_says():
    works = repository.job(CELLS["after"], 1).works
    plan = "\n\n".join(("Plan: two tasks.", *(repository.task_text(work, SITE) for work in works)))
    asked = Seen("", (Message("user", plan, "task"),), TOOLS)
    assert len(agents("together")(asked).calls) == 2
    ((_, arguments),) = agents("after")(asked).calls
    assert arguments["prompt"] == repository.task_text(works[0], SITE)
    heard = (
        *asked.messages,
        Message("assistant", "", "work_out", (Call("1", "Agent", {}),)),
        Message("tool", "The report follows:\n POOL_SIZE is 4444.", "work_obs", (), "1"),
    )
    after, told = (
        agents(name)(Seen("", heard, TOOLS)).calls[0][1]["prompt"] for name in ("after", "told")
    )
    assert after == repository.task_text(works[1], SITE)
    assert told == f"{after}\nKnown already:\nPOOL_SIZE is 4444."


def test_a_request_without_tools_is_the_clients_own():
    work = repository.job(CELLS["after"], 1).works[0]
    asked = asks(work)
    assert asked_of(asked)[0] == "task-1"
    assert asked_of(asked._replace(tools=()))[0] == "side"


def test_the_parts_of_a_block_that_hooks_put_there():
    mine = "<system-reminder>\nPreToolUse:Read hook additional context: x\n</system-reminder>"
    text = f"1\tLIMIT = 3\n{mine}\n<system-reminder>\nToday's date.\n</system-reminder>"
    assert list(of_hooks(text)) == [mine]
    assert list(
        of_hooks("PreToolUse:WebFetch hook error: known\n<system-reminder>\nx\n</system-reminder>")
    ) == ["PreToolUse:WebFetch hook error: known\n"]
    assert list(of_hooks("nothing")) == []


# -- the figures -----------------------------------------------------------------------


def records(arm="plugin", seed=1, cell="after"):
    """A session as it is recorded: two agents, one file and one page looked at by both."""
    head = {
        "kind": "session",
        "client": "c",
        "version": "1",
        "cell": cell,
        "arm": arm,
        "seed": seed,
    }
    plugin = arm == "plugin"
    more = [
        {
            "kind": "entry",
            "id": "a",
            "agent": "engineer",
            "namespace": "status/shop",
            "tags": ["run"],
            "tokens": 5,
        },
        {
            "kind": "entry",
            "id": "b",
            "agent": "engineer",
            "namespace": "status/shop",
            "tags": [],
            "tokens": 5,
        },
        *(
            {"kind": "run", "agent": "x", "status": "done", "tokens": each, "turns": 1}
            for each in (300, 150, 160)
        ),
    ]
    return [
        {**head, "encoding": "o200k_base", "elapsed": 1.0},
        {"kind": "result", "fresh": 110, "cached": 400, "written": 150, "replied": 9, "usd": 0.5},
        {"kind": "request", "agent": "lead", "tokens": 140, "hooks": 0},
        {"kind": "request", "agent": "task-1", "tokens": 150, "hooks": 0},
        {"kind": "request", "agent": "side", "tokens": 50, "hooks": 0},
        {"kind": "request", "agent": "task-2", "tokens": 160, "hooks": 10 if plugin else 0},
        {"kind": "request", "agent": "lead", "tokens": 160, "hooks": 3 if plugin else 0},
        {
            "kind": "call",
            "agent": "task-1",
            "tool": "Read",
            "subject": "shop/a.py",
            "denied": False,
        },
        {
            "kind": "call",
            "agent": "task-1",
            "tool": "Read",
            "subject": "shop/a.py",
            "denied": False,
        },
        {
            "kind": "call",
            "agent": "task-1",
            "tool": "WebFetch",
            "subject": "limits",
            "denied": False,
        },
        {
            "kind": "call",
            "agent": "task-2",
            "tool": "Read",
            "subject": "shop/a.py",
            "denied": False,
        },
        {
            "kind": "call",
            "agent": "task-2",
            "tool": "WebFetch",
            "subject": "limits",
            "denied": plugin,
        },
        {"kind": "transcript", "agent": "lead", "replies": 2, "tokens": 300, "replied": 3},
        {"kind": "transcript", "agent": "task-1", "replies": 1, "tokens": 150, "replied": 3},
        {"kind": "transcript", "agent": "task-2", "replies": 1, "tokens": 160, "replied": 3},
        *(more if plugin else ()),
        {"kind": "verdict", "task": "task-1", "ok": True},
        {"kind": "verdict", "task": "task-2", "ok": not plugin},
    ]


def test_a_session_comes_to_what_it_comes_to_by_hand():
    assert figures.figures(records()) == figures.Figures(
        requests=5, tokens=660, first=140, hooks=13, usd=0.5, calls=5, reads=2, read_twice=1, fetched_twice=0,
        completions=1, miscounted=0, right=1.0,
    )  # fmt: skip
    without = figures.figures(records("without"))
    assert (without.fetched_twice, without.completions, without.hooks, without.right) == (
        1,
        0,
        0,
        2.0,
    )


def test_witnesses_that_agree_are_not_told_of():
    assert list(figures.wrong(records())) == []


@pytest.mark.parametrize("kind", ["request", "transcript", "result"])
def test_a_wrong_count_is_caught(kind):
    session = records()
    record = next(record for record in session if record["kind"] == kind)
    record["fresh" if kind == "result" else "tokens"] += 1
    assert list(figures.wrong(session))


def test_a_run_with_another_usage_than_its_conversation_is_counted():
    session = records()
    next(record for record in session if record["kind"] == "run")["tokens"] -= 1
    assert figures.figures(session).miscounted == 1


def test_the_arms_are_compared_seed_by_seed():
    both = [
        *records("without", 1),
        *records("plugin", 1),
        *records("plugin", 2),
        *records("without", 2),
    ]
    both += records("plugin", 3)  # without its pair
    (rows,) = figures.table(both).values()
    row = next(row for row in rows if row.figure == "fetched_twice")
    assert (row.without.value, row.plugin.value, row.difference.value) == (1, 0, -1)


def test_a_session_that_is_there_twice_is_refused():
    with pytest.raises(ValueError, match="twice"):
        figures.sessions([*records(), *records()])


def test_no_line_of_the_table_is_too_long():
    large = [*records("without"), *records("plugin")]
    for record in large:
        if record["kind"] == "request":
            record["tokens"] += 900_000
    lines = list(figures.lines(large, {cell.name: cell.about for cell in CELLS.values()}))
    assert max(map(len, lines)) <= 80


def test_the_figures_are_made_again_from_the_records(tmp_path, capsys):
    both = [*records("without"), *records("plugin")]
    (tmp_path / "clients.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in both))
    values = figures.values(both)
    (tmp_path / "clients.json").write_text(json.dumps(values, indent=1) + "\n")
    assert suite.main(["clients", "--again", str(tmp_path)]) == 0
    assert "pages looked up twice" in capsys.readouterr().out
    values["after"]["tokens"]["plugin"][0] += 1
    (tmp_path / "clients.json").write_text(json.dumps(values, indent=1) + "\n")
    assert suite.main(["clients", "--again", str(tmp_path)]) == 1
    assert "is not what the records say" in capsys.readouterr().err


def test_a_client_that_is_absent_is_named(tmp_path, capsys):
    assert (
        suite.main(["clients", "--command", str(tmp_path / "claude"), "--out", str(tmp_path)]) == 77
    )
    assert "claude is not there to be run; npm install" in capsys.readouterr().err


def test_a_cell_that_there_is_not_is_named(tmp_path, capsys):
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\necho 1.0\n")
    os.chmod(program, stat.S_IRWXU)
    words = ["clients", "--command", str(program), "--cells", "nowhere", "--out", str(tmp_path)]
    assert suite.main(words) == 2
    assert "there is no cell nowhere; there are after" in capsys.readouterr().err


def test_the_documentation_is_served_to_who_believes_its_certificate(tmp_path):
    values = repository.job(CELLS["after"], 1).values
    with places.site(str(tmp_path)) as site:
        site.values = values
        trust = ssl.create_default_context(cafile=site.certificate[0])
        with urllib.request.urlopen(f"{site.url}/limits", context=trust) as answer:
            assert f"RATE_LIMIT is {values['RATE_LIMIT']}." in answer.read().decode()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{site.url}/other", context=trust)
        with pytest.raises(urllib.error.URLError, match="certificate"):
            urllib.request.urlopen(f"{site.url}/limits")
    assert site.served == ["limits"]


def test_a_session_has_a_home_and_a_repository_of_its_own(tmp_path):
    values = repository.job(CELLS["after"], 1).values
    place = places.make_place(str(tmp_path), "/somewhere/bin/claude", values)
    assert set(place.env) & {"ANTHROPIC_API_KEY", "SYNAPSE_ROOT"} == set()
    assert place.env["PATH"].startswith("/somewhere/bin:")
    trusted = json.loads((tmp_path / "home/.claude.json").read_text())["projects"]
    assert trusted[os.path.realpath(place.repository)]["hasTrustDialogAccepted"]
    places.install(place, "claude-code")
    assert os.path.isfile(os.path.join(place.root, "synapse.yaml"))
    with pytest.raises(places.Broken, match="could not be installed"):
        places.install(place, "no-such-client")
