"""The bench runs, and notices when what it measures is wrong. What it measures is nobody's promise
here.
"""

import json

import pytest

from bench import mailing, nights, perspective, plain, recall, spawning, trace
from bench.__main__ import OPERATIONS, main
from bench.brute import Score, differs, ranking
from bench.figures import Beside, Goal, Row, Timing
from bench.ground import Ground
from bench.reading import check
from bench.workload import NAMESPACES, PLANTED, items
from scenarios.measure import retrieval
from synapse.model import clock

QUICK = (
    "page",
    "search",
    "view",
    "open",
    "naive",
    "unread",
    "mail",
    "prompt",
    "change",
    "act",
    "rebuild",
    "taint",
)
END = clock.micros("2026-02-01T12:00:00Z")


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    made = Ground(str(tmp_path_factory.mktemp("bench") / "workspace"), 300, END)
    yield made
    made.close()


def test_every_quick_operation_gives_rows(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(mailing, "BLOCKS", 2)
    path = tmp_path / "rows.json"
    only = [word for name in QUICK for word in ("--only", name)]
    assert main(["--sizes", "60", "--dir", str(tmp_path), "--json", str(path), *only]) == 0
    rows = json.loads(path.read_text(encoding="utf-8"))
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(shown) == len(rows) + 1
    assert all(row["values"] for row in rows)
    assert not [row for row in rows if "wrong" in row["missed"] or "tokenizers" in row["missed"]]
    assert set(QUICK) <= set(OPERATIONS)


def test_spawns_and_wakes_give_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(spawning, "SPAWNS", 2)
    monkeypatch.setattr(spawning, "WAKES", 12)  # some come between two sessions
    monkeypatch.setattr(spawning, "IMPORTS", 1)
    ground = Ground(str(tmp_path / "workspace"), 60, clock.now())
    rows = [*spawning.spawning(ground), *spawning.waking(ground), *spawning.starting(ground)]
    ground.close()
    assert len(rows) >= 6
    assert all(row.values["p50"] > 0 for row in rows)
    assert not [row for row in rows if "lost" in row.missed or "sdks" in row.missed]


def test_nights_give_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(nights, "IDLE", 0.05)
    ground = Ground(str(tmp_path / "workspace"), 300, clock.now())
    rows = [*nights.nights(ground)]
    ground.close()
    assert len(rows) == 4
    assert all(value > 0 for row in rows for value in row.values.values())


def test_the_workspace_of_the_bench_is_sound(ground):
    assert ground.mem.verify().ok
    assert len(list(ground.everything())) == 300
    assert [item.id for item in items(300, END)] == [entry.id for entry in ground.everything()]


def test_the_workload_has_the_shape_that_it_says():
    found = list(items(20_000, END))
    for word, share in PLANTED.items():
        assert sum(word in item.body for item in found) / len(found) == pytest.approx(
            share, rel=0.3
        )
    shares = [
        sum(item.priority == name for item in found) / len(found)
        for name in ("critical", "important")
    ]
    assert shares == pytest.approx([0.02, 0.18], rel=0.15)
    assert sum(item.replaces is not None for item in found) / len(found) == pytest.approx(
        0.1, rel=0.15
    )
    assert {item.namespace for item in found} == set(NAMESPACES)
    assert 380 < sum(len(item.body) for item in found) / len(found) < 420


def found(ground, word):
    hits = ground.reader.search(word)
    return [hit.entry.id for hit in hits]


@pytest.mark.parametrize("word", PLANTED)
def test_the_ranking_is_the_one_by_definition(ground, word):
    assert check(ground, word, found(ground, word)) is None


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda ids: ids[::-1], "has rank 1, which belongs to"),
        (lambda ids: ids[:9], "9 found, not 10"),
        (lambda ids: [*ids[:9], ids[0]], "an entry was found twice"),
        (lambda ids: [*ids[:9], "syn-2026-01-01-001"], "does not match, or may not be seen"),
    ],
)
def test_a_wrong_ranking_is_noticed(ground, spoil, told):
    assert told in (check(ground, "marmalade", spoil(found(ground, "marmalade"))) or "")


def test_equal_scores_may_change_places():
    scores = [Score(3, "c", 2.0), Score(2, "b", 1.0), Score(1, "a", 1.0)]
    assert differs(["c", "a", "b"], scores) is None
    assert differs(["b", "c", "a"], scores) is not None


def test_all_that_hold_the_word_are_ranked(ground):
    everything = list(ground.everything())
    seen = {entry.seq for entry in everything}
    holding = sorted(entry.seq for entry in everything if "heliotrope" in entry.body)
    ranked = ranking(everything, seen, "heliotrope")
    assert sorted(score.seq for score in ranked) == holding


def test_a_target_is_missed_by_value_and_by_ratio():
    row = Row(
        "x", 1, {"p50": 3.0, "max": 9.0}, Beside("y", 1.0), (Goal("ratio", 2.0), Goal("max", 10.0))
    )
    assert row.ratio == 3.0
    assert row.missed == ["ratio"]
    assert row.verdict == "MISSED: ratio"
    assert Row("x", 1, {"per_s": 5.0}, None, (Goal("per_s", least=5.0),)).verdict == "met"


def test_percentiles():
    timing = Timing(range(1, 101))
    assert timing.values("p95") == {"p50": 51, "p99": 100, "max": 100, "min": 1, "p95": 96}


def test_a_trace_counts_functions_files_and_calls(tmp_path):
    source = "def first():\n    return [second() for _ in range(3)]\n\n\ndef second():\n    return len('x')\n"
    names = {}
    exec(compile(source, str(tmp_path / "chain.py"), "exec"), names)
    exec(compile("def other():\n    return 1\n", str(tmp_path / "other.py"), "exec"), names)
    exec(compile("def foreign():\n    return 1\n", "/elsewhere/foreign.py", "exec"), names)

    def act():
        names["first"]()
        names["other"]()
        names["foreign"]()

    tracer = trace.Tracer((str(tmp_path),))
    tracer.install()
    try:
        found = tracer.trace(act)
        names["first"]()  # outside of a trace: counted nowhere
    finally:
        tracer.remove()
    assert (found.functions, found.files, found.total) == (3, 2, 5)


def test_every_act_of_the_trace_is_counted(capsys):
    assert main(["trace"]) == 0
    rows = [line.split("|") for line in capsys.readouterr().out.splitlines()[2:]]
    assert {row[1].strip() for row in rows} >= {
        "append",
        "read",
        "read, nothing new",
        "briefing",
        "search",
        "one scripted turn",
        "night",
    }
    assert all(int(row[column]) > 0 for row in rows for column in (2, 3, 4))


def test_prompts_are_told_most_of_what_they_want_and_little_else(capsys):
    """Of the team that no rule was made by: as much as without a threshold, or nearly, at a quarter
    of the rest.
    """
    team = recall.teams()["held_out"]
    assert sum(prompt.asks for prompt in team.prompts) == 50
    figures = {name: team.measure(rule) for name, rule in team.rules().items()}
    told, plain = figures["told"], figures["FTS5, first 3"]
    assert told.found / told.wanted >= 0.79
    assert told.others / told.wanted <= 0.6
    assert told.idle == 0 < plain.idle
    assert told.others * 3 < plain.others
    assert told.tokens < plain.tokens
    assert recall.main() == 0
    assert len(capsys.readouterr().out.splitlines()) == 12


TEAMS = """---
reference_need_sets:
  baker: [f1, f3]
  {other}: [f2]
---

# background

The **baker** makes dough and watches the oven; the **{other}** writes the list of prices.

# f1: the oven

The oven has 240 degrees, and the dough two hours. {more}

# f2: the list

Prices end in 5, and the list of prices hangs beside the door. {more}

# f3: steam

The oven needs steam.
"""


def test_pieces_of_a_team_stand_beside_random_ones(tmp_path, capsys):
    more = "What was said of the weather, and of the street, follows here. " * 3
    for name, other in (("a", "seller"), ("b", "clerk")):
        text = TEAMS.format(other=other, more=more)
        (tmp_path / f"{name}.md").write_text(text, encoding="utf-8")
    text = TEAMS.format(other="seller", more=more).replace("[f2]", "[f2, f3]")
    (tmp_path / "c.md").write_text(text, encoding="utf-8")
    scenarios = perspective.load(str(tmp_path))
    halves = perspective.halves(scenarios)
    assert [[s.name for s in half] for half in halves.values()] == [["a.md", "b.md"], ["c.md"]]
    baker = scenarios[0].roles[0]
    steam = min(baker.sizes, key=baker.sizes.__getitem__)
    assert steam in baker.needed
    for rule in perspective.RULES.values():
        shown = rule(scenarios[0], baker)
        assert shown <= baker.sizes.keys()
        assert rule is perspective.automatic or baker.share(shown) <= 0.5
    assert perspective.shortest(scenarios[0], baker) == {steam}
    assert perspective.product(scenarios[0], baker) == {steam}, "there is no room for the oven"
    assert 0 < perspective.by_chance(scenarios[0]) < 1
    low, high = perspective.interval([0.1, 0.2, 0.3])
    assert 0.1 <= low < 0.2 < high <= 0.3
    assert perspective.main([str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "development: 2 scenarios"
    assert len(lines) == 5 + len(perspective.RULES)


def test_the_search_stands_beside_a_plain_table(tmp_path, capsys):
    turns = [
        {"speaker": "ana", "dia_id": f"D1:{number}", "text": text}
        for number, text in enumerate(("where is the key?", "under the pot", "ok"), 1)
    ]
    talk = {
        "sample_id": "talk",
        "conversation": {"session_1": turns, "session_1_date_time": "1:56 pm on 8 May, 2023"},
        "qa": [{"question": "the key", "evidence": ["D1:1", "D1:2"], "category": "where"}],
    }
    path = tmp_path / "talks.json"
    path.write_text(json.dumps([talk]), encoding="utf-8")
    (pair,) = plain.pairs(retrieval.read(str(path)), str(tmp_path))
    # `the` is in both; no reader of mail finds a word that everybody says
    assert pair[:3] == ("where", 1.0, 0.5)
    assert main(["plain", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:4] == ["where", "(1)", "1.000", "0.500"]
    assert "times as much" in lines[-1]
