"""A supervisor killed between a shared tool's claim, its call, its result and the entry: every
agent gets what it wanted, no result is written twice, no claim outlives its run.
"""

import random
import signal
from collections import Counter
from pathlib import Path

import pytest

import synapse
from synapse.access.claims import Claim
from tests.crash.lives import begin

SCRIPT = Path(__file__).with_name("sharing.py")
SUBJECTS = ("the retry limit", "the time limit")
VALUES = ("The retry limit is 15.", "The time limit is 14.")
AGENTS = ("eng-a", "eng-b", "eng-c")
ACTS = 60  # durable acts of a team that nobody kills, about


def workspace(root):
    with synapse.init(str(root)) as memory:
        for name in (*AGENTS, "eng-z"):
            memory.register(synapse.Agent(name))
    return root


def live(root, *options):
    """A life of a supervisor: whether it came to its end; not where it was killed."""
    life = begin(SCRIPT, root, root / "log", *options)
    _, err = life.communicate(timeout=300)
    if life.returncode == -signal.SIGKILL:
        return False
    assert life.returncode == 0, err
    return True


def story(root, deaths, *options):
    """One team's work through these deaths; how many there were."""
    workspace(root)
    for died, death in enumerate(deaths):
        if live(root, "--die", *death, *options):
            return died
    assert live(root, *options)
    return len(deaths)


def findings(root, deaths):
    """All that is wrong with what the supervisors left."""
    with synapse.open(str(root)) as memory:
        memory.store.refresh()
        records = list(memory.store.log.since(0))
        runs = memory.store.index.current.runs()
        wrong = [
            f"{run['run']} is {run['state']}, {run['status']}"
            for run in runs
            if run["status"] != "done"
        ]
        for run in runs:
            said = (root / "runs" / run["run"] / "output.md").read_text()
            wrong += [
                f"{run['run']} does not know: {value}" for value in VALUES if value not in said
            ]
        written = Counter(
            record.key
            for record in records
            if record.kind == "entry" and record.key and not record.key.startswith("copy:")
        )
        wrong += [f"a result was written {n} times" for n in written.values() if n != 1]
        wrong += [f"{len(written)} results"] if len(written) != len(SUBJECTS) else []
        for subject in SUBJECTS:
            claim = taken(memory, f"investigate: subject={subject}")
            wrong += [] if isinstance(claim, Claim) else [f"a claim outlives its run: {claim}"]
    calls = Counter(line.split("\t")[0] for line in (root / "log").read_text().splitlines())
    wrong += [
        f"{subject} was looked for {n} times"
        for subject, n in calls.items()
        if n > 2 * (1 + deaths)
    ]
    return wrong


def taken(memory, work):
    try:
        return memory.as_agent("eng-z").claim(work)
    except synapse.errors.Conflict as error:
        return error


def at_acts(seed, lives):
    rng = random.Random(seed)
    return [("any", str(rng.randint(1, ACTS // 2))) for _ in range(lives)]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_team_shares_through_the_deaths_of_its_supervisors(tmp_path, seed):
    died = story(tmp_path / "ws", at_acts(seed, 4))
    assert died
    assert findings(tmp_path / "ws", died) == []


MOMENTS = [
    ("after claim", "1"),
    ("before entry", "1"),
    ("after entry", "1"),
    ("before result", "2"),
    ("after result", "2"),
]


@pytest.mark.parametrize("death", MOMENTS, ids=" ".join)
def test_no_moment_loses_or_doubles_anything(tmp_path, death):
    label, n = death
    assert story(tmp_path / "ws", [(*label.split(), n)]) == 1
    assert findings(tmp_path / "ws", 1) == []


@pytest.mark.parametrize(
    ("way", "death", "found"),
    [
        ("blind", ("after", "entry", "1"), "a result was written"),
        ("claims", ("after", "claim", "1"), "a claim outlives its run"),
        ("deaf", ("after", "entry", "1"), "does not know"),
    ],
)
def test_supervisors_that_get_it_wrong_are_found_out(tmp_path, way, death, found):
    """The same death does a right one no harm."""
    bad = tmp_path / "wrong"
    story(bad, [death], "--wrong", way)
    assert any(found in problem for problem in findings(bad, 1))


@pytest.mark.soak
def test_a_team_shares_through_sixty_deaths(tmp_path):
    deaths = 0
    for seed in range(20):
        where = tmp_path / f"ws{seed}"
        died = story(where, at_acts(seed, 4))
        assert findings(where, died) == [], seed
        deaths += died
    assert deaths > 60
