"""A supervisor killed at any moment: every run ends once, nothing that was acknowledged is lost or
written twice.
"""

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from contextlib import redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

import synapse
from orchestrator.cli import main
from orchestrator.runs.files import ledger, steps
from orchestrator.runs.files.folder import LEDGER, OUTPUT, STEPS, Folder
from orchestrator.runs.files.lease import CONFIRM
from tests.crash.lives import begin

SCRIPT = Path(__file__).with_name("supervised.py")
ENGINEERS = ("eng-a", "eng-b", "eng-c")
# of who hangs: longer than a loaded machine keeps it from saying that it lives
LEASE = 4.0
# durable acts of a team that nobody kills, about; each counts before and after
ACTS = 196


def workspace(root):
    with synapse.init(str(root)) as memory:
        memory.register(synapse.Agent("lead", role="project-lead"))
        for name in ENGINEERS:
            memory.register(synapse.Agent(name))
    return root


def live(root, log, *options, after=300.0):
    """A life of a supervisor; killed so many seconds after it began, unless it came to its end. How
    it ended; None where it died.
    """
    life = begin(SCRIPT, root, log, *options)
    began = life.stdout.readline()
    try:
        out, err = life.communicate(timeout=after)
    except subprocess.TimeoutExpired:
        assert after < 300, "it never came to its end"
        life.kill()
        life.communicate()
        return None
    if life.returncode == -signal.SIGKILL:
        return None
    assert life.returncode == 0, began + err
    return out.strip()


def story(root, log, deaths):
    """One team's work, through these deaths (how each life ends: options, seconds); how many there
    were.
    """
    workspace(root)
    died = 0
    for options, after in deaths:
        if live(root, log, *options, after=after) is not None:
            return died
        died += 1
    assert live(root, log) is not None
    return died


def at_acts(seed, lives, most):
    """Deaths at durable acts."""
    rng = random.Random(seed)
    return [(("--die", "any", str(rng.randint(1, most))), 300.0) for _ in range(lives)]


def at_times(seed, lives):
    """Deaths at any moment."""
    rng = random.Random(seed)
    return [((), rng.uniform(0.0, 0.7)) for _ in range(lives)]


def findings(root, log):
    """All that is wrong with what the supervisors left."""
    with synapse.open(str(root)) as memory:
        memory.store.refresh()
        runs = memory.store.index.current.runs()
        wrong = [*in_runs(memory, runs), *in_entries(memory)]
        for run in runs:
            wrong += in_files(Folder(str(root), run["run"]), runs)
        wrong += unproven(memory)
    keys = Counter(log.read_text().split()) if log.exists() else Counter()
    wrong += [
        f"the user's tool was called {n} times with {key}" for key, n in keys.items() if n != 1
    ]
    if len(keys) > 9:
        wrong.append(f"the user's tool was called with {len(keys)} keys")
    return wrong + debts(root)


def unproven(memory):
    """What `verify` finds. A file that a killed writer did not place is put there two seconds after
    its record.
    """
    if problems := memory.verify().problems:
        time.sleep(2.1)
        memory.store.refresh(whole=True)
        problems = memory.verify().problems
    return list(map(str, problems))


def in_runs(memory, runs):
    ended = Counter(
        record.fields["run"]
        for record in memory.store.log.since(0)
        if record.kind == "run" and record.fields["state"] == "ended"
    )
    wrong = [
        f"{run['run']} is {run['state']}, {run['status']}"
        for run in runs
        if run["status"] != "done"
    ]
    wrong += [
        f"{run['run']} ended {ended[run['run']]} times" for run in runs if ended[run["run"]] != 1
    ]
    wrong += [
        f"{agent} ran {n} times"
        for agent, n in Counter(run["agent"] for run in runs).items()
        if n != 1
    ]
    return wrong + ([f"{len(runs)} runs"] if len(runs) != 4 else [])


def in_entries(memory):
    bodies = Counter(
        entry.body for entry in memory.as_agent("operator").read(namespace="status/web")
    )
    expected = [f"{name} step {turn}" for name in ENGINEERS for turn in range(3)]
    wrong = [f"{body!r} was written {bodies[body]} times" for body in expected if bodies[body] != 1]
    done = Counter(body.split(" (")[0] for body in bodies.elements() if body.startswith("Done:"))
    wrong += [f"{body!r} was written {n} times" for body, n in done.items() if n != 1]
    return wrong + ([f"only {len(done)} results"] if len(done) != 4 else [])


def in_files(folder, runs):
    """The steps against the ledger, and what a parent was told."""
    recorded = steps.read(folder.lines(STEPS))
    paid = Counter(
        line["ledger"] for line in map(json.loads, folder.lines(STEPS)) if line["kind"] == "turn"
    )
    booked = Counter(
        map(ledger.dump, (line for line in ledger.read(folder.lines(LEDGER)) if line.answered))
    )
    name = os.path.basename(folder.path)
    wrong = (
        [f"{name}: {sum((paid - booked).values())} turns are not in the ledger"]
        if paid - booked
        else []
    )
    wrong += (
        [f"{name}: {sum((booked - paid).values())} lines are too many"] if booked - paid else []
    )
    read = Counter(id for step in recorded for id in step.fields.get("read", ()))
    children = Counter(run["run"] for run in runs if run["parent"] == name)
    wrong += [f"{name} read {dict(read)} of {list(children)}"] if read != children else []
    last = [step.fields["turn"]["text"] for step in recorded if step.kind == "turn"][-1:]
    wrong += [f"{name}: its output is not its last word"] if [folder.read(OUTPUT)] != last else []
    numbers = [step.n for step in recorded]
    return wrong + ([f"{name}: steps {numbers}"] if numbers != list(range(len(numbers))) else [])


def debts(root):
    told = TextIOWrapper(BytesIO(), write_through=True)
    with redirect_stdout(told):
        assert main(["--root", str(root), "unread", "--json"]) == 0
    told.seek(0)
    return [f"a debt: {debt['run']}" for debt in json.load(told)["debts"]]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_team_survives_its_supervisors(tmp_path, seed):
    assert story(tmp_path / "ws", tmp_path / "log", at_acts(seed, 4, ACTS // 4)) > 1
    assert findings(tmp_path / "ws", tmp_path / "log") == []


@pytest.mark.parametrize(
    ("way", "death", "found"),
    [
        ("keys", "after entry 2", "was written 2 times"),
        (
            "steps",
            "after turn 8",
            "the user's tool was called 2 times|step 0' was written 2 times|lines are too many",
        ),
        ("ledger", "before ledger.jsonl 3", "1 turns are not in the ledger"),
    ],
)
def test_supervisors_that_get_it_wrong_are_found_out(tmp_path, way, death, found):
    """The same death does a right one no harm."""
    right, bad = tmp_path / "right", tmp_path / "wrong"
    for name, options in ((right, ()), (bad, ("--wrong", way))):
        workspace(name)
        assert live(name, name / "log", *options, "--die", *death.split()) is None
        assert live(name, name / "log", *options) is not None
    assert findings(right, right / "log") == []
    assert any(
        each in problem for problem in findings(bad, bad / "log") for each in found.split("|")
    )


@pytest.mark.soak
def test_a_team_survives_two_hundred_deaths(tmp_path, capsys):
    deaths, n = Counter(), 0
    while deaths.total() < 400:
        where, log = tmp_path / f"ws{n}", tmp_path / f"log{n}"
        kind, plan = ("acts", at_acts(n, 4, ACTS)) if n % 2 else ("times", at_times(n, 3))
        deaths[kind] += story(where, log, plan)
        assert findings(where, log) == [], (n, plan)
        n += 1
    with capsys.disabled():
        print(
            f"\n{dict(deaths)} deaths of {n} teams: every run ended once, nothing"
            f" lost, nothing twice"
        )


# -- who hangs, and comes back ---------------------------------------------------------


def begun(root, *options):
    return begin(SCRIPT, root, root / "log", *options)


def until(what, seconds=120.0):
    """Wait until this is so; so long only if something is wrong."""
    start = time.monotonic()
    while not what():
        assert time.monotonic() - start < seconds
        time.sleep(0.01)


def holding(pid, root):
    """The files that a process has locked for writing, by inode: but for the one that says that it
    lives.
    """
    path = Path("/proc/locks")
    locks = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    living = {each.stat().st_ino for each in (root / "runs" / ".holders").iterdir()}
    held = {
        int(lock[5].split(":")[2])
        for lock in locks
        if lock[1] != "->" and lock[3:5] == ["WRITE", str(pid)]
    }
    return held - living


def stands_still(pid):
    threads = Path(f"/proc/{pid}/task").glob("*/stat")
    return all(stat.read_text().rpartition(")")[2].split()[0] in "tT" for stat in threads)


class Two:
    """A supervisor at work, and one that watches. The one takes nobody for hung, however loaded the
    machine is.
    """

    def __init__(self, root, *options):
        self.root = workspace(root)
        self.memory = synapse.open(str(root))
        hasty = [each for each in options if each == "--hasty"]
        options = [each for each in options if each != "--hasty"]
        self.other = begun(root, "--watch", "--lease", str(LEASE), *hasty)
        assert self.other.stdout.readline() == "begun\n"
        self.one = begun(root, "--lease", "600", "--pace", "0.5", *options)
        assert self.one.stdout.readline() == "begun\n"

    def close(self):
        self.memory.close()
        for each in (self.one, self.other):
            each.kill()
            each.communicate()

    def at_work(self):
        """In the middle: something is written, and more is to come."""
        until(lambda: len(self.memory.as_agent("operator").read(namespace="status/web")) > 2)
        assert self.running()

    def hangs(self):
        """Stop the one where it holds no lock, which nobody could go on without; when its lease is
        over.
        """
        self.at_work()
        while True:
            self.one.send_signal(signal.SIGSTOP)
            until(lambda: stands_still(self.one.pid))
            if not holding(self.one.pid, self.root):
                return self.beat() + LEASE + CONFIRM
            self.one.send_signal(signal.SIGCONT)
            time.sleep(0.003)

    def beat(self):
        """The last sign of life."""
        (found,) = (self.root / "runs" / ".holders").glob(f"{self.one.pid}-*")
        ago = time.monotonic() - int(found.read_text().split("\n")[1]) / 1e9
        return time.time() - ago

    def running(self):
        self.memory.store.refresh()
        return self.memory.store.index.current.runs(state="running")

    def taken(self):
        return all(run["epoch"] == 2 for run in self.running())

    def looks(self):
        """When each look of the other's began and ended, and how many runs it took over."""
        path = self.root / "log.looks"
        lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [(float(began), float(ended), int(taken)) for began, ended, taken in lines]

    def finished(self):
        """What the other says once it has brought it to its end."""
        out = self.other.communicate(timeout=120)[0]
        assert out.splitlines()[-1] == "done"
        return out

    def refused(self):
        return [
            record.fields for record in self.memory.store.log.since(0) if record.kind == "refused"
        ]


def late(looks, due):
    """Whatever a watcher does wrong about a holder that is gone, or counts as gone, from this
    moment on.
    """
    early = [
        f"it took over {due - ended:.3f} s too early"
        for _, ended, taken in looks
        if taken and ended < due
    ]
    idle = [
        f"it looked {began - due:.3f} s after it was due, in vain"
        for began, _, taken in looks
        if not taken and began > due
    ]
    return early + idle + ([] if any(taken for *_, taken in looks) else ["it took over nothing"])


@pytest.fixture
def two(tmp_path):
    made = []

    def make(*options):
        made.append(Two(tmp_path / "ws", *options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_after_a_crash_another_goes_on_within_two_seconds(tmp_path, two):
    """At its first look after that, and it looks every half second: what its looks take is the
    machine's.
    """
    both = two()
    both.at_work()
    before = time.time()
    both.one.kill()
    both.one.wait()
    died = time.time()
    both.finished()
    assert [wrong for wrong in late(both.looks(), died) if "early" not in wrong] == []
    assert all(ended >= before for _, ended, taken in both.looks() if taken)
    assert findings(tmp_path / "ws", tmp_path / "ws" / "log") == []


@pytest.mark.parametrize("back", ["in the middle", "after the end"])
def test_who_hangs_is_taken_over_and_ends_by_itself(tmp_path, two, back):
    both = two()
    due = both.hangs()
    assert both.running()
    until(both.taken)
    if back == "after the end":
        both.finished()
    both.one.send_signal(signal.SIGCONT)
    out, err = both.one.communicate(timeout=120)
    assert both.one.returncode == 0, err
    assert "goes on as epoch 2" in out or "has ended" in out
    if back == "in the middle":
        both.finished()
    assert late(both.looks(), due) == []
    assert findings(tmp_path / "ws", tmp_path / "ws" / "log") == []
    refused = both.refused()
    assert {(each["epoch"], each["current"]) for each in refused} == {(1, 2)}
    late_acts = {"run", "delivery", "entry in status/web"}
    assert {each["what"] for each in refused} <= late_acts


def slept(both, seconds):
    """Stop both, as a machine that sleeps stops all that runs on it; how often a run was taken over
    after that, although the one goes on.
    """
    both.hangs()
    both.other.send_signal(signal.SIGSTOP)
    until(lambda: stands_still(both.other.pid))
    time.sleep(seconds)
    looks = len(both.looks())
    both.other.send_signal(signal.SIGCONT)
    time.sleep(0.3)  # the watcher looks first
    both.one.send_signal(signal.SIGCONT)
    until(lambda: len(both.looks()) > looks + 2 or any(n for *_, n in both.looks()))
    return sum(taken for *_, taken in both.looks())


def test_a_machine_that_slept_loses_no_healthy_run(two):
    assert slept(two(), LEASE + 2) == 0


@pytest.mark.soak
def test_a_machine_that_slept_long_loses_no_healthy_run(tmp_path):
    for n in range(6):
        both = Two(tmp_path / f"ws{n}")
        try:
            assert slept(both, 20) == 0
        finally:
            both.close()


def test_a_watcher_that_looks_once_is_found_out(two):
    assert slept(two("--hasty"), LEASE + 2) > 0


def test_who_hangs_with_a_lock_holds_up_everybody_and_costs_nothing(tmp_path, two):
    """The log's lock ends with its process. Until then whoever wants to write is told who has it,
    and looks on.
    """
    both = two("--hang", "lock")
    until(lambda: stands_still(both.one.pid))
    assert both.other.stdout.readline() == f"busy: {both.one.pid}\n"
    assert {run["epoch"] for run in both.running()} == {1}
    both.one.kill()
    both.finished()
    assert findings(tmp_path / "ws", tmp_path / "ws" / "log") == []


def test_a_watcher_that_is_early_or_late_is_found_out():
    assert late([(0.0, 0.1, 0), (1.0, 1.6, 2)], 1.5) == []
    assert "too early" in late([(1.0, 1.4, 2)], 1.5)[0]
    assert "in vain" in late([(1.6, 1.7, 0), (2.0, 2.1, 2)], 1.5)[0]
    assert late([(0.0, 0.1, 0)], 1.5) == ["it took over nothing"]


def test_a_supervisor_that_comes_back_without_looking_is_found_out(tmp_path, two):
    both = two("--wrong", "fence")
    both.hangs()
    until(both.taken)
    both.finished()
    both.one.send_signal(signal.SIGCONT)
    both.one.communicate(timeout=120)
    assert any(
        "ended 2 times" in problem for problem in findings(tmp_path / "ws", tmp_path / "ws" / "log")
    )
