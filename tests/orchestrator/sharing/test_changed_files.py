"""What a run with tools of its user's is told of changes that others make to its files: before it
acts on what is no longer so, once, and nothing else.
"""

import asyncio
import os
import random
import re
from collections import defaultdict

import pytest

from orchestrator.engines.scripted import Move
from orchestrator.files.changes import ALSO, OUTSIDE, Changes
from orchestrator.files.seen import RunFiles
from orchestrator.runs.files import steps
from orchestrator.runs.files.folder import STEPS
from orchestrator.runs.task import Task
from orchestrator.sharing.changed_files import HELD, ChangedFiles
from orchestrator.tools.functions import ToolFailed, tool_of

DB = "def connect():\n    return 1\n\n\ndef fetch_all(conn):\n    return conn.rows()\n"
USERS = "from src.db import fetch_all\n\nprint(fetch_all(None))\n"
RENAME = ("edit_file", "src/db.py", "def fetch_all(conn):", "def fetch_page(conn, page=0):")
BACK = (*RENAME[:2], *RENAME[:1:-1])
NOTICE = "eng-a changed src/db.py just now: fetch_all is now fetch_page"
NAMED = re.compile(r"^- (\S+(?: and \S+)*) changed (\S+) ", re.MULTILINE)
LISTED = re.compile(rf"^- (?:{ALSO}|{OUTSIDE}): (.*)$", re.MULTILINE)
NAMES = {"read_file": ("path",), "edit_file": ("path", "old", "new"), "bash": ("command",)}


async def read_file(path: str) -> str:
    """Read a file."""
    return content_of(path)


def content_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


async def edit_file(path: str, old: str, new: str) -> str:
    """Replace a text in a file."""
    text = content_of(path)
    if old not in text:
        raise ToolFailed(f"{path} has no such text")
    put(path, text.replace(old, new))
    return "ok"


async def bash(command: str) -> str:
    """Run a command."""
    words = command.split()
    if words[0] == "sleep":
        await asyncio.sleep(float(words[1]))
    if words[0] == "sed":
        put(words[2], content_of(words[2]).replace(*words[1].split("/")[1:3]))
    return "ok"


TOOLS = [tool_of(read_file), tool_of(edit_file), tool_of(bash)]


def put(path, content):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(content)


def calls(*acts):
    return tuple((name, dict(zip(NAMES[name], values, strict=True))) for name, *values in acts)


def plays(*moves, end="Done."):
    """A script of moves, each at its second: the acts of one turn."""
    last = 0.0
    timed = []
    for at, *acts in moves:
        timed.append((at - last, acts))
        last = at

    def play(seen):
        if seen.turn < len(timed):
            takes, acts = timed[seen.turn]
            return Move("", calls(*acts), takes=takes)
        return end

    return play


@pytest.fixture
def repository(tmp_path, monkeypatch):
    folder = tmp_path / "repository"
    put(str(folder / ".git/HEAD"), "ref: refs/heads/main\n")
    put(str(folder / "src/db.py"), DB)
    put(str(folder / "src/users.py"), USERS)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def team(world, cast, repository):
    """Plays two engineers at once; what each was told, request by request."""

    def played(a, b, task_b="Use it", **more):
        requests = defaultdict(list)

        def kept(name, script):
            def play(seen):
                requests[name].append(seen.text)
                return script(seen)

            return play

        here = world(cast(eng_a=kept("a", a), eng_b=kept("b", b)), tools=TOOLS, **more)
        here.results = []

        async def beside():
            here.results.append(await here.supervisor.spawn(Task("Rename it", "eng-a", "web")))

        here.results.append(here.spawn(task_b, "eng-b", "web", also=[beside()]))
        here.requests = requests
        return here

    return played


def told(here, name, text):
    """How often a text stands in each request of an engineer."""
    return [request.count(text) for request in here.requests[name]]


# -- who is told, and when -------------------------------------------------------------------------


def test_who_reads_edits_greps_and_tests_is_told_before_its_first_wrong_act(team):
    """The scene: A renames while B, which has read the file, thinks."""
    b = plays(
        (1, ["read_file", "src/db.py"]),
        (5, ["read_file", "src/users.py"]),
        (6, ["bash", "grep -rn fetch_all src"]),
        (7, ["edit_file", "src/users.py", "fetch_all(None)", "fetch_all(1)"]),
        (8, ["bash", "python -m pytest -q"]),
    )
    here = team(plays((1, ["read_file", "src/db.py"]), (3, [*RENAME])), b)
    # B thinks from second 1 to second 5: its next request has it, and nothing was done in between
    assert told(here, "b", NOTICE) == [0, 0, 1, 1, 1, 1]
    assert (
        "  > - def fetch_all(conn):\n  > + def fetch_page(conn, page=0):" in here.requests["b"][2]
    )
    assert not any(NAMED.findall(request) for request in here.requests["a"])


ACTS = {
    "an edit": ["edit_file", "src/db.py", "return 1", "return 2"],
    "a command that names it": ["bash", "sed s/return/yield/ src/db.py"],
    "an edit of what is gone": ["edit_file", "src/db.py", "fetch_all(conn)", "fetch_all(c)"],
}


@pytest.mark.parametrize("act", ACTS)
def test_a_call_on_a_file_that_changed_meanwhile_is_held_once(team, act, repository):
    b = plays(
        (1, ["read_file", "src/db.py"]), (5, ACTS[act]), (6, ACTS[act]), (7, ["bash", "true"])
    )
    here = team(plays((3, [*RENAME])), b)
    assert told(here, "b", HELD) == [0, 0, 1, 1, 1]
    assert told(here, "b", NOTICE) == [0, 0, 1, 1, 1]
    assert "fetch_page" in (repository / "src/db.py").read_text()


def test_a_call_of_the_same_turn_as_the_notice_is_held_too(team):
    edit = ["edit_file", "src/db.py", "return 1", "return 2"]
    b = plays((1, ["read_file", "src/db.py"]), (5, ["bash", "true"], edit, edit), (6, edit))
    here = team(plays((3, [*RENAME])), b)
    assert told(here, "b", NOTICE) == [0, 0, 1, 1]
    assert told(here, "b", HELD) == [0, 0, 2, 2]
    assert "return 2" in content_of("src/db.py")


def test_a_read_or_a_search_of_a_file_that_changed_is_made_and_told(team):
    for act in (["read_file", "src/db.py"], ["bash", "grep -n connect src/db.py"]):
        put("src/db.py", DB)
        here = team(plays((3, [*RENAME])), plays((1, ["read_file", "src/db.py"]), (5, act)))
        assert told(here, "b", HELD) == [0, 0, 0]


def test_a_name_that_is_gone_is_told_to_who_uses_it_without_having_seen_the_file(team):
    b = plays(
        (5, ["bash", "grep -rn fetch_all src"]),
        (6, ["bash", "grep -rn fetch_all src"]),
        (7, ["edit_file", "src/users.py", "print(", "print(fetch_all(1), "]),
    )
    here = team(plays((3, [*RENAME])), b)
    assert told(here, "b", NOTICE) == [0, 1, 1, 1]
    knows = plays((5, ["edit_file", "src/users.py", "fetch_all(None)", "fetch_page(None)"]))
    put("src/db.py", DB)
    assert told(team(plays((3, [*RENAME])), knows), "b", NOTICE) == [0, 0]


def test_who_only_calls_tools_without_files_is_told_before_its_next_turn(team):
    b = plays((1, ["read_file", "src/db.py"]), (2, ["bash", "sleep 3"]), (9, ["bash", "true"]))
    here = team(plays((3, [*RENAME])), b)
    assert told(here, "b", NOTICE) == [0, 0, 1, 1]


def test_the_words_of_who_made_the_change_are_told_instead_of_its_lines(team):
    b = plays((1, ["read_file", "src/db.py"]), (9, ["bash", "true"]), (10, ["bash", "true"]))
    end = "Renamed. src/db.py: fetch_page takes a page; every caller has to pass one."
    here = team(plays((3, [*RENAME]), end=end), b)
    assert told(here, "b", "every caller has to pass one. (syn-") == [0, 0, 1, 1]
    assert told(here, "b", "> - def") == [0, 0, 0, 0]
    assert told(here, "b", "every caller") == [0, 0, 1, 1]


def test_what_was_taken_back_and_what_is_of_another_work_tree_is_no_news(team, repository):
    back = plays((2, [*RENAME]), (3, [*BACK]))
    b = plays((1, ["read_file", "src/db.py"]), (9, ["bash", "true"]))
    assert told(team(back, b), "b", "changed src/db.py") == [0, 0, 0]
    put(str(repository / "other/.git"), f"gitdir: {repository}/.git/worktrees/other\n")
    put(str(repository / "other/src/db.py"), DB)
    b = plays((1, ["read_file", "other/src/db.py"]), (9, ["bash", "grep -n fetch_all other"]))
    here = team(plays((2, [*RENAME])), b)
    assert [NAMED.findall(request) for request in here.requests["b"][:2]] == [[], []]


def test_a_parent_is_not_told_of_what_it_gave_out_and_its_child_is_told_of_its_own(
    world, cast, repository
):
    requests = defaultdict(list)

    def lead(seen):
        requests["lead"].append(seen.text)
        give = (("spawn_agent", {"agent": "eng-a", "task": "Rename it"}),)
        moves = [
            Move("", calls(["read_file", "src/db.py"])),
            Move("", give),
            Move("", calls(["edit_file", "src/users.py", "None", "0"]), takes=3),
            Move("", (("wait", {}),)),
            Move("", calls(["bash", "true"])),
        ]
        return moves[seen.turn] if seen.turn < len(moves) else "Done."

    def eng(seen):
        requests["eng"].append(seen.text)
        moves = [(1, ["read_file", "src/users.py"]), (2, [*RENAME]), (9, ["bash", "true"])]
        return plays(*moves)(seen)

    here = world(cast(lead=lead, eng_a=eng), tools=TOOLS)
    here.spawn("Have it renamed", "lead", "web")
    assert not any(NAMED.findall(request) for request in requests["lead"])
    assert [request.count("lead changed src/users.py") for request in requests["eng"]][-1] == 1


def test_a_change_by_nobody_is_told_as_such(team, repository, monkeypatch):
    monkeypatch.setattr("orchestrator.files.changes.SETTLED", 0.0)

    def a(seen):
        put("src/db.py", DB + "\n# by hand\n") if seen.turn == 1 else None
        return plays((2, ["bash", "true"]), (3, ["bash", "true"]))(seen)

    here = team(
        a, plays((1, ["read_file", "src/db.py"]), (9, ["bash", "true"]), (10, ["bash", "x"]))
    )
    assert told(here, "b", f"- {OUTSIDE}: src/db.py") == [0, 0, 1, 1]


def test_what_a_run_was_told_it_is_not_told_again_after_a_crash(world, cast, repository):
    requests = []

    def b(seen):
        requests.append(seen.text)
        return plays(
            (1, ["read_file", "src/db.py"]), (5, ["bash", "true"]), (50, ["bash", "true"])
        )(seen)

    engine = cast(eng_a=plays((3, [*RENAME])), eng_b=b)
    here = world(engine, tools=TOOLS)

    async def some_of_it():
        async with here.supervisor:
            await here.supervisor.start(Task("Rename it", "eng-a", "web"))
            await here.supervisor.start(Task("Use it", "eng-b", "web"))
            await asyncio.sleep(20)
            await here.supervisor._abandon()

    here.time.run(some_of_it())
    here.supervisor.run_store.lease.close()
    assert requests[-1].count(NOTICE) == 1
    put("src/db.py", content_of("src/db.py").replace("fetch_page", "fetch_rows"))
    here.resumed(engine, tools=TOOLS)
    assert [request.count(NOTICE) for request in requests[-2:]] == [1, 1]


def test_notices_are_paid_as_news_and_steps_are_the_same_each_time(team):
    b = plays((1, ["read_file", "src/db.py"]), (5, ["bash", "true"]))
    here = team(plays((3, [*RENAME])), b)
    run = here.results[-1].run
    messages = [s for s in steps.read(here.folder(run).lines(STEPS)) if s.kind == "message"]
    assert [step.fields["why"] for step in messages] == ["changed"]
    assert "wake" in here.labels(here.results[-1])


def test_a_secret_in_a_change_goes_nowhere(team):
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    put(".env", "return 1\n")
    names = ("src/db.py", ".env")
    a = plays(*((3, ["edit_file", name, "return 1", f"token = '{key}'"]) for name in names))
    b = plays(*((1, ["read_file", name]) for name in names), (9, ["bash", "true"]))
    here = team(a, b)
    assert {path for _, path in NAMED.findall(here.requests["b"][-1])} == set(names)
    assert key not in here.requests["b"][-1]
    own = here.folder(here.results[0].run).path
    for folder, _, files in os.walk(here.mem.store.root):
        for name in files if folder != own else ():
            with open(os.path.join(folder, name), "rb") as file:
                assert key.encode() not in file.read(), os.path.join(folder, name)


# -- nothing false, nothing missed -----------------------------------------------------------------

FILES = [f"src/m{n}.py" for n in range(4)]
ENGINEERS = ("eng-a", "eng-b", "lead")


class Account:
    """What each run has to be told, by a model of its own: of the files that it had to do with,
    those whose text others made another one since it last saw it or was told.
    """

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.texts = dict.fromkeys(FILES, "x = 0\n")
        self.known, self.stale = defaultdict(dict), defaultdict(set)
        self.act, self.read_messages = {}, defaultdict(int)
        self.notices, self.wrong = [], []

    def script(self, who):
        def play(seen):
            new = seen.messages[self.read_messages[who] :]
            self.read_messages[who] = len(seen.messages)
            self.check(who, [message.text for message in new])
            if seen.turn == 20:
                return "Done."
            act = self.random.choice("read edit edit sed cat other".split())
            name = self.random.choice(FILES)
            old, new_text = (f"x = {self.random.randrange(5)}" for _ in range(2))
            if act in ("edit", "sed"):
                old = self.texts[name].strip() if self.random.random() < 0.8 else old
            self.act[who] = act, name
            call = {
                "read": ["read_file", name],
                "edit": ["edit_file", name, old, new_text],
                "sed": ["bash", f"sed s/{old[-1]}/{new_text[-1]}/ {name}"],
                "cat": ["bash", f"cat {name}"],
                "other": ["bash", "true"],
            }[act]
            # no two at one instant
            takes = self.random.randrange(1, 9) + ENGINEERS.index(who) / 10 * (seen.turn == 0)
            return Move("", calls(call), takes=takes)

        return play

    def check(self, who, texts):
        """Hold what was said to a run against what it had to be told, and note what it did."""
        act, name = self.act.get(who, ("other", ""))
        given = "\n".join(texts)
        found = [path for _, path in NAMED.findall(given)]
        found += [path for line in LISTED.findall(given) for path in line.split(", ")]
        is_held = act in ("edit", "sed", "cat") and name in self.stale[who]
        self.notices += found
        self.wrong += [path for path in found if found.count(path) > 1]
        self.wrong += {*found} ^ self.stale[who]
        self.wrong += ["held"] * ((HELD in given) != is_held)
        self.known[who] |= {path: self.texts[path] for path in self.stale[who]}
        self.stale[who].clear()
        if act == "other" or is_held:
            return
        now = content_of(name)
        self.known[who][name] = now
        if now != self.texts[name]:
            self.texts[name] = now
            for other in ENGINEERS:
                if other != who and name in self.known[other]:
                    is_new = now != self.known[other][name]
                    (self.stale[other].add if is_new else self.stale[other].discard)(name)


def play(world, cast, seed):
    """Play three runs of 20 turns each; the notices, and those that were false or missing."""
    account = Account(seed)
    for name, text in account.texts.items():
        put(name, text)
    scripts = {name.replace("-", "_"): account.script(name) for name in ENGINEERS}
    here = world(cast(**scripts), tools=TOOLS)

    async def beside(name):
        await here.supervisor.spawn(Task(f"Work of {name}", name, "web"))

    here.spawn("Work", "eng-a", "web", also=[beside(name) for name in ENGINEERS[1:]])
    return account


@pytest.mark.parametrize("seed", range(4))
def test_a_long_run_of_three_has_no_false_notice_and_misses_none(world, cast, repository, seed):
    account = play(world, cast, seed)
    assert account.wrong == []
    assert len(account.notices) > 5


def again(self, file, place, run):
    self.looked, self.changes = 0, {}


WRONG = {
    "nobody is told": (ChangedFiles, "text", lambda self, session: ("", {})),
    "it is told every time": (RunFiles, "note_change", again),
    "its own are told": (ChangedFiles, "is_own", lambda self, files, run: False),
    "no call is held": (ChangedFiles, "before", lambda self, session, call: ("", {})),
    "what a call changed is not recorded": (Changes, "settle", lambda self, *_: {}),
    "what it saw is not remembered": (RunFiles, "see", lambda self, key, *_: None),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_the_account_finds_an_implementation_that_errs(world, cast, repository, monkeypatch, wrong):
    monkeypatch.setattr(*WRONG[wrong])
    assert any(play(world, cast, seed).wrong for seed in range(3))
