"""Retrieval, on conversations written for it; on the recorded ones where they lie."""

import json
import os
from functools import partial

import pytest

from scenarios import __main__ as shell
from scenarios.measure import retrieval
from scenarios.measure.retrieval import Answer, load, measure, read, recall, report
from synapse.knowledge import recall as known
from synapse.model import clock

RECORDED = os.path.join(os.path.dirname(__file__), "../../../../shared/data/locomo/locomo-dev.json")

KITCHEN = [
    ("Ida", "Where did you hide the spare fuse box key?"),
    ("Olaf", "Behind the blue teapot."),
    ("Ida", "And the ladder?"),
    ("Olaf", "In the cellar, under the stairs."),
]
GARDEN = [
    ("Olaf", "I planted forty tulips today."),
    ("Ida", "Lovely, my roses have greenfly again."),
    ("Olaf", "Try soap water."),
]


def session(turns, number):
    return [
        {"speaker": who, "dia_id": f"D{number}:{n}", "text": text}
        for n, (who, text) in enumerate(turns, 1)
    ]


def sample(id="talk-1"):
    garden = session(GARDEN, 2)
    garden[0] |= {"blip_caption": "a photo of a flower bed", "query": "tulip bed"}
    return {
        "sample_id": id,
        "conversation": {
            "speaker_a": "Ida",
            "session_1": session(KITCHEN, 1),
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_2": garden,
            "session_2_date_time": "9:05 am on 25 May, 2023",
            "session_3_date_time": "9:05 am on 26 May, 2023",
        },
        "qa": [
            {"question": "Where is the key of the fuse box?", "evidence": ["D1:2"], "category": 4},
            {"question": "When did Olaf plant tulips?", "evidence": ["D2:1; D9:9"], "category": 2},
            {
                "question": "What helps against greenfly on roses?",
                "evidence": ["D2:2", "D2:3"],
                "category": 1,
            },
            {"question": "Nobody knows", "evidence": [], "category": 3},
            {"question": "Nor this", "evidence": ["D7:1"], "category": 3},
        ],
    }


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "talks.json"
    path.write_text(json.dumps([sample("talk-1"), sample("talk-2")]), encoding="utf-8")
    return str(path)


def test_turns_have_their_times_and_questions_their_evidence(path):
    first, second = read(path)
    assert [turn.id for turn in first.turns] == [
        "D1:1",
        "D1:2",
        "D1:3",
        "D1:4",
        "D2:1",
        "D2:2",
        "D2:3",
    ]
    assert clock.seconds(first.turns[1].at) == "2023-05-08T13:57:00Z"
    assert (
        first.turns[4].text == "I planted forty tulips today. [a photo of a flower bed / tulip bed]"
    )
    assert [(each.category, sorted(each.evidence)) for each in first.questions] == [
        ("single-hop", ["D1:2"]),
        ("temporal", ["D2:1"]),
        ("multi-hop", ["D2:2", "D2:3"]),
    ]
    assert second.id == "talk-2"


def test_turns_become_messages_of_threads(path, tmp_path):
    conversations = read(path)
    loaded = load(str(tmp_path / "w"), conversations)
    with loaded.mem:
        entries = [loaded.agent_memory.get(id) for id in loaded.turns]
        assert {entry.kind for entry in entries} == {"message"}
        assert len({entry.more["thread"] for entry in entries}) == 4
        assert [(entry.author, entry.body) for entry in entries[:2]] == [
            ("ida", KITCHEN[0][1]),
            ("olaf", KITCHEN[1][1]),
        ]
        assert entries[0].timestamp.startswith("2023-05-08T13:56")
        assert loaded.mem.verify().ok


def test_with_an_embedder_it_finds_what_is_said_in_other_words(path, tmp_path, capsys):
    pytest.importorskip("onnxruntime")
    with open(path, encoding="utf-8") as file:
        samples = json.load(file)[:1]
    samples[0]["qa"] = [{"question": "insects on my blossoms", "evidence": ["D2:2"], "category": 4}]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(samples, file)
    found = [
        measure(read(path), str(tmp_path / embedder), embedder) for embedder in ("off", "local")
    ]
    assert [each["embedder"] for each in found] == ["off", "local"]
    assert [each["R@5"] for each in found] == [0.0, 1.0]


def test_personal_data_is_left_out_of_what_is_told(path, tmp_path):
    told = "Mail to ida@garden-friends.org, or to olaf@garden-friends.org."
    samples = [sample()]
    samples[0]["conversation"]["session_2"][2]["text"] = told
    with open(path, "w", encoding="utf-8") as file:
        json.dump(samples, file)
    loaded = load(str(tmp_path / "w"), read(path))
    with loaded.mem:
        assert len(loaded.turns) == len(KITCHEN) + len(GARDEN)
        (hit,) = loaded.agent_memory.search("mail")
        assert "Mail to [personal data" in hit.body
        assert "@" not in hit.body


def test_what_is_found_is_counted(path, tmp_path):
    found = measure(read(path), str(tmp_path / "keep"))
    assert set(retrieval.FIGURES) <= set(found)
    assert found["R@5"] == found["R@20"] == found["capsule"] == 1.0
    assert 0 < found["mrr"] <= 1.0
    assert set(found["by_category"]) == {"single-hop", "temporal", "multi-hop"}
    assert found["questions"] == 6
    assert found["turns"] == 14
    assert found["one_workspace"]["R@20"] == 1.0
    assert sorted(os.listdir(tmp_path / "keep")) == ["all-in-one", "talk-1", "talk-2"]


def test_another_conversation_s_turn_is_no_evidence():
    wanted = {("a", "D1:1"), ("a", "D1:2")}
    assert recall([("a", "D1:1"), ("b", "D1:2")], wanted) == 0.5
    assert recall([], wanted) == 0.0


def test_figures_fall_when_nothing_is_found():
    good, bad = (
        Answer(
            kind, dict.fromkeys(retrieval.FIGURES, x), at, 1.0, dict.fromkeys(retrieval.UNITS_AT, x)
        )
        for kind, x, at in (("temporal", 1.0, 0.002), ("multi-hop", 0.0, 0.004))
    )
    found = report([good, bad, bad, bad], [bad, good])
    assert found["R@10"] == 0.25
    assert found["by_category"]["multi-hop"]["R@10"] == 0.0
    low, high = found["intervals"]["R@10"]
    assert low <= 0.25 <= high
    assert found["one_workspace"]["weighing few costs in R@10"] == 0.5
    assert found["units"]["all questions"]["session any@10"] == 0.25
    assert found["milliseconds"]["p99"] == 4.0


def test_every_unit_counts_what_it_says():
    turns = [("c", f"D{session}:{turn}") for session in range(1, 41) for turn in (1, 2)]
    sessions = {turn: ("c", int(turn[1][1:].split(":")[0])) for turn in turns}
    found = [*turns[:8], *turns[20:32]]  # sessions 1 to 4, then 11 to 16
    wanted = {("c", "D2:1"), ("c", "D11:2"), ("c", "D30:1"), ("c", "D30:2")}
    units = retrieval.in_units(found, turns, wanted, sessions)
    assert [units[f"turns@{depth}"] for depth in retrieval.DEPTHS] == [0.25, 0.5, 0.5]
    assert [units[f"any@{depth}"] for depth in retrieval.DEPTHS] == [1, 1, 1]
    assert [units[f"all@{depth}"] for depth in retrieval.DEPTHS] == [0, 0, 0]
    one = retrieval.in_units(found, turns, {("c", "D12:1"), ("c", "D2:2")}, sessions)
    assert [one[f"all@{depth}"] for depth in retrieval.DEPTHS] == [0, 0, 1]
    beside = retrieval.in_units(found, turns, {("c", "D3:9"), ("c", "D11:9")}, sessions | {
        ("c", "D3:9"): ("c", 3), ("c", "D11:9"): ("c", 11)})  # fmt: skip
    assert [beside[f"{unit}@10"] for unit in ("turns", "any", "session any", "session all")] == [
        0,
        0,
        1,
        1,
    ]
    assert [beside[f"{unit}@5"] for unit in ("session any", "session all")] == [1, 0]
    # the 13th session that is found
    far = retrieval.in_units(found, turns, {("c", "D7:1")}, sessions)
    assert [far[f"any of k sessions@{depth}"] for depth in retrieval.DEPTHS] == [0, 0, 1]
    assert not any(far[f"session any@{depth}"] for depth in retrieval.DEPTHS)


def test_adversarial_questions_are_in_all_and_not_in_the_usual_ones():
    def answer(kind, x):
        return Answer(
            kind, dict.fromkeys(retrieval.FIGURES, x), 0, 0, dict.fromkeys(retrieval.UNITS_AT, x)
        )

    groups = retrieval.units(
        [answer("adversarial", 1.0), answer("single-hop", 0.0), answer("temporal", 0.5)]
    )
    assert {name: row["questions"] for name, row in groups.items()} == {
        "all questions": 3, "without adversarial": 2, "adversarial": 1, "single-hop": 1, "temporal": 1,
    }  # fmt: skip
    assert groups["all questions"]["any@5"] == 0.5
    assert groups["without adversarial"]["any@5"] == 0.25


def test_the_capsule_is_what_the_tool_says(path, tmp_path, monkeypatch):
    monkeypatch.setattr(known, "search", partial(known.search, max_capsule_bytes=256))
    found = measure(read(path), str(tmp_path / "w"))
    assert found["capsule"] < found["R@5"]
    assert found["R@5"] == 1.0


def test_the_command_prints_a_table_or_json(path, tmp_path, capsys):
    assert shell.main(["retrieval", path, "--keep", str(tmp_path / "kept")]) == 0
    told = capsys.readouterr().out
    assert "among the first 10\n" in told
    assert "Judged answer accuracies" in told
    assert told.startswith("6 questions about 14 turns\n")
    assert all(len(line) <= 80 for line in told.splitlines())
    assert retrieval.main([path, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["R@20"], printed["units"]["all questions"]["all@20"]) == (1.0, 1.0)
    assert retrieval.main([path, "--keep", str(tmp_path / "kept")]) == 2
    assert "not empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is no JSON"),
        ("{}", "not a list of conversations"),
        ("[1]", "holds no conversations with questions"),
        ('[{"sample_id": "x"}]', "holds no conversations with questions"),
        ('[{"sample_id": "x", "conversation": 3}]', "holds no conversations with questions"),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path, capsys, text, why):
    path = tmp_path / "broken.json"
    path.write_text(text, encoding="utf-8")
    assert retrieval.main([str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"brain-suite: {path}: {why}")
    assert retrieval.main([str(tmp_path / "missing.json")]) == 2


@pytest.mark.skipif(not os.path.exists(RECORDED), reason="the recorded conversations are not here")
def test_recorded_conversations_reach_the_goals(tmp_path):
    found = measure(read(RECORDED)[:2], str(tmp_path))
    assert found["R@5"] >= 0.65
    assert found["R@10"] >= 0.74
    assert found["R@20"] >= 0.81
    assert found["capsule"] >= 0.74
