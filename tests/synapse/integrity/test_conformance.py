import hashlib
import importlib.util
import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

import synapse
from synapse.formats import codec, declared
from synapse.integrity import conformance

_SPEC = importlib.util.spec_from_file_location("broken", Path(__file__).with_name("broken.py"))
broken = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(broken)
broken_examples = broken.broken_examples

PROTOCOL = Path(synapse.__file__).with_name("PROTOCOL.md").read_text(encoding="utf-8")

# A workspace by a program that has nothing but `cat`.
BY_HAND = r"""
set -e
mkdir -p agents entries/status/backend entries/blockers inbox/eng-qa/tmp inbox/eng-qa/new
cat > synapse.yaml <<'END'
protocol: 1
name: by-hand
END
cat > agents/eng-backend.yaml <<'END'
agent:
  id: eng-backend
  role: engineer
  department: backend
subscriptions:
  read: ["*"]
  write: ["status/*", "blockers/*"]
END
cat > agents/eng-qa.yaml <<'END'
id: eng-qa
role: specialist
END
cat > entries/status/backend/syn-2026-02-01-001.md <<'END'
---
id: syn-2026-02-01-001
from: eng-backend
to: all            # a comment
timestamp: 2026-02-01T01:00:00Z
namespace: status/backend
priority: info
ttl: never
tags: [users, no]
---

Deployed /v2/users.
---
And more.
END
cat > entries/blockers/syn-2026-02-01-002.md <<'END'
---
id: syn-2026-02-01-002
from: eng-backend
timestamp: 2026-02-01T02:00:00Z
priority: critical
ttl: permanent
related: [syn-2026-02-01-001]
---
The database is down.
END
cat > inbox/eng-qa/tmp/one <<'END'
---
from: eng-qa
timestamp: 2026-02-01T03:00:00Z
namespace: blockers
priority: important
ttl: never
---
Tests wait for the database.
END
mv inbox/eng-qa/tmp/one inbox/eng-qa/new/one.md
"""


@pytest.fixture
def by_hand(tmp_path):
    subprocess.run(["sh", "-c", BY_HAND], cwd=tmp_path, check=True, timeout=30)
    return tmp_path


def said(root, verdict=None):
    return [
        str(found) for found in conformance.check(str(root)) if verdict in (None, found.verdict)
    ]


def put(root, path, text):
    full = root / path
    full.parent.mkdir(parents=True, exist_ok=True)
    full.write_text(text, encoding="utf-8")


def entry(number=9, more="", author="eng-backend", place="blockers"):
    return (
        f"---\nid: syn-2026-02-01-{number:03d}\nfrom: {author}\ntimestamp: 2026-02-01T01:00:00Z\n"
        f"namespace: {place}\npriority: info\n{more}---\nx\n"
    )


def test_a_workspace_made_with_cat_conforms(by_hand):
    before = sorted(by_hand.rglob("*"))
    assert conformance.check(str(by_hand)) == []
    assert sorted(by_hand.rglob("*")) == before, "it only looks"


def test_a_workspace_made_with_cat_is_adopted_whole(by_hand):
    time.sleep(0.3)
    with synapse.open(str(by_hand)) as memory:
        seen = memory.as_agent("eng-backend").read(limit=None)
        assert sorted(found.body.split()[0] for found in seen) == ["Deployed", "Tests", "The"]
        assert {"syn-2026-02-01-001", "syn-2026-02-01-002"} < {found.id for found in seen}
        assert {found.trust for found in seen} == {"local"}
        assert memory.verify().ok
    assert not list(by_hand.glob("quarantine/*"))
    assert conformance.check(str(by_hand)) == []


def test_a_workspace_of_our_own_conforms(tmp_path):
    root = tmp_path / "own"
    with synapse.init(str(root)) as memory:
        memory.register(synapse.Agent("eng-a", write=["api/*"], read=["*"]))
        me = memory.as_agent("eng-a")
        first = me.append("one", "api/users", tags=["a"], topic="users: endpoint")
        me.append("two", "api/users", supersedes=first.id, related=[first.id])
        me.archive([first.id], "old")
    assert conformance.check(str(root)) == []


def test_a_workspace_with_reviewed_entries_conforms(tmp_path):
    root = tmp_path / "own"
    with synapse.init(str(root)) as memory:
        memory.register(synapse.Agent("junior", write=["api/*"], review_required=True))
        memory.register(synapse.Agent("lead", role="cto"))
        approved, rejected, _ = [
            memory.as_agent("junior").append(body, "api/users") for body in ("a", "b", "c")
        ]
        memory.as_agent("lead").approve(approved.id)
        memory.as_agent("lead").reject(rejected.id, "no")
    assert conformance.check(str(root)) == []
    (root / f"entries/api/users/{approved.id}.md").write_text("changed", encoding="utf-8")
    assert ["was changed after it was written" in found for found in said(root)] == [True]


def test_the_broken_examples_are_rejected(tmp_path):
    paths = broken_examples(str(tmp_path))
    assert [os.path.basename(path) for path in paths] == ["places", "texts", "claims"]
    told = {os.path.basename(path): said(path, "fail") for path in paths}
    assert [len(found) for found in told.values()] == [3, 3, 4]
    for name, words in {
        "places": [
            "already the id of",
            "'../../outside' is not valid",
            "does not fit the place of the file",
        ],
        "texts": ["'from' is given twice", "not closed", "symbolic link"],
        "claims": [
            "is newer than",
            "call the file r2d2.yaml",
            "may not write in decisions",
            "says from: r2d2",
        ],
    }.items():
        for word in words:
            assert any(word in found for found in told[name]), (name, word, told[name])


def test_every_finding_says_where_what_and_how(tmp_path):
    for path in broken_examples(str(tmp_path)):
        for found in conformance.check(path):
            assert os.path.lexists(os.path.join(path, found.path))
            assert found.problem
            assert found.advice
            assert found.path in str(found)


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        ("synapse.yaml", "protocol: [1]\n", "protocol"),
        ("synapse.yaml", "protocol: 1\nttl: {api/*: soon}\n", "ttl 'soon'"),
        ("synapse.yaml", "protocol: 1\nprotocol: 1\n", "'protocol' is given twice"),
        ("agents/eng-x.yaml", "id: eng-x\nauthority: 900\n", "900 is not between"),
        ("agents/eng-x.yaml", "a: &b [*b]\n", "anchors"),
        ("entries/loose.md", entry(), "stands in no namespace"),
        ("entries/A/x.md", entry(place="A"), "entries/A: is not a namespace"),
        ("entries/blockers/a b/x.md", entry(), "is not a namespace"),
        ("entries/blockers/x.md", entry(more="pii: true\n"), "pii: true needs a key"),
        ("entries/blockers/x.md", entry(more="scope: encrypted\n"), "scope: encrypted needs a key"),
        ("entries/blockers/x.md", '{"id": "syn-1"}', "JSON front matter"),
        ("entries/blockers/x.md", "", "no front matter"),
        ("inbox/eng-qa/new/x.md", entry(), "says from: eng-backend in the box of eng-qa"),
        (
            "inbox/eng-qa/new/x.md",
            entry(author="eng-qa").replace("namespace: blockers\n", ""),
            "namespace is missing",
        ),
        (
            "inbox/eng-qa/new/x.md",
            entry(author="eng-qa", place="decisions"),
            "may not write in decisions",
        ),
        ("inbox/Еng/new/x.md", entry(), "is not the id of an agent"),
        ("inbox/loose.md", "x", "is not a drop box"),
        (
            "archive/2026-01.md",
            "<!-- synapse:entry id=syn-1 bytes=1 sha256=0 -->\nx\n",
            "not what its marker says",
        ),
        ("journal/000000000001.jsonl", '{"chain":"0","seq":1}\n', "cannot be read"),
    ],
)
def test_what_is_refused(by_hand, path, text, told):
    put(by_hand, path, text)
    failed = said(by_hand, "fail") or said(by_hand)
    assert len(failed) == 1, failed
    assert told in failed[0]


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        (
            "entries/blockers/x.md",
            entry(more="related: [syn-2020-01-01-001]\n"),
            "refers to syn-2020-01-01-001",
        ),
        (
            "entries/blockers/syn-2026-02-01-009.md",
            entry(author="ghost"),
            "ghost is not registered",
        ),
        (
            "entries/blockers/x.md",
            entry().replace("id: syn-2026-02-01-009", "id: 2026-02-01"),
            "no id of the form",
        ),
        ("entries/blockers/notes.txt", "x", "is not an entry"),
        ("inbox/ghost/new/.keep", "", "there is no agent ghost"),
        ("archive/2026-01.md", "# January\n", "outside of its markers"),
    ],
)
def test_what_is_only_warned_of(by_hand, path, text, told):
    put(by_hand, path, text)
    assert said(by_hand, "fail") == []
    assert any(told in found for found in said(by_hand, "warn"))


def test_nothing_that_is_not_a_plain_file_is_opened(by_hand):
    folder = by_hand / "entries/blockers"
    os.mkfifo(folder / "pipe.md")
    os.mkfifo(by_hand / "agents/pipe.yaml")
    (folder / "loop.md").symlink_to("loop.md")
    (folder / "out").symlink_to("/")
    os.link(folder / "syn-2026-02-01-002.md", folder / "hard.md")
    with (folder / "sparse.md").open("wb") as file:
        file.truncate(1 << 40)
    before = time.thread_time()
    told = said(by_hand, "fail")
    assert time.thread_time() - before < 1
    assert len([found for found in told if "special file" in found]) == 2
    assert len([found for found in told if "symbolic link" in found]) == 2
    assert len([found for found in told if "hard links" in found]) == 2
    assert len([found for found in told if f"has {1 << 40} bytes" in found]) == 1


def test_folders_that_are_links_are_not_followed(tmp_path, by_hand):
    (by_hand / "archive").symlink_to("/tmp")
    assert any("archive: is a symbolic link" in found for found in said(by_hand, "fail"))


def test_no_directory_is_no_traceback(tmp_path):
    assert "is not a directory" in said(tmp_path / "nowhere")[0]
    assert "synapse.yaml: is missing" in said(tmp_path)[0]


# -- the journal, by its description alone ---------------------------------------------


@pytest.fixture
def journalled(tmp_path):
    root = tmp_path / "own"
    with synapse.init(str(root)) as memory:
        memory.register(synapse.Agent("eng-a", write=["api/*"], read=["*"]))
        for n in range(3):
            memory.as_agent("eng-a").append(f"body {n} 🎉\n<!-- -->", "api/users")
        memory.as_agent("eng-a").archive([memory.as_agent("eng-a").read()[0].id], "old")
    return root


def journal(root):
    return sorted((root / "journal").glob("*.jsonl"))[0]


def test_the_chain_is_what_the_protocol_says(journalled):
    chain = "0" * 64
    for number, line in enumerate(journal(journalled).read_bytes().splitlines(), 1):
        record = json.loads(line)
        covered = line[len(b'{"chain":"",') + 64 : -1]
        covered = covered.split(b',"text":')[0]
        assert hashlib.sha256(chain.encode() + covered).hexdigest() == record["chain"]
        chain = record["chain"]
        assert record["seq"] == number
        if "text" in record:
            assert hashlib.sha256(record["text"].encode()).hexdigest() == record["sha"]
        order = "chain seq at day n kind by id path once key f sha text".split()
        assert list(record) == [name for name in order if name in record]


def test_archive_pages_are_what_the_protocol_says(journalled):
    raw = next((journalled / "archive").glob("*.md")).read_bytes()
    head, rest = raw.split(b"\n", 1)
    found = re.fullmatch(
        rb"<!-- synapse:entry id=(\S+) bytes=(\d+) sha256=([0-9a-f]{64}) -->", head
    )
    assert found
    id, size, sha = found.groups()
    text = rest[: int(size)]
    assert hashlib.sha256(text).hexdigest().encode() == sha
    assert rest[int(size) :] == b"\n<!-- /synapse:entry " + id + b" -->\n"


def test_a_changed_journal_or_file_is_found(journalled):
    path = journal(journalled)
    whole = path.read_bytes()
    for old, new, told in (
        (b'"by":"eng-a"', b'"by":"eng-b"', "does not follow from the one before it"),
        (b"body 1", b"body 7", "text of record"),
    ):
        path.write_bytes(whole.replace(old, new, 1))
        assert told in said(journalled, "fail")[0]
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:1] + lines[2:]))
    assert "record 3 follows record 1" in said(journalled, "fail")[0]
    path.write_bytes(whole + b'{"chain":"')
    assert "ends in a line that cannot be read" in said(journalled, "warn")[0]
    path.write_bytes(whole + b"[" * 100_000 + b"\n")
    assert "cannot be read" in said(journalled, "warn")[0]
    path.write_bytes(whole)
    entries = sorted((journalled / "entries").rglob("*.md"))
    entries[0].write_text(entries[0].read_text() + "more")
    assert "was changed after it was written" in said(journalled, "fail")[0]


# -- the page itself -------------------------------------------------------------------


def blocks(kind):
    return re.findall(rf"```{kind}\n(.*?)```", PROTOCOL, re.DOTALL)


def test_its_examples_are_read_as_it_says():
    (example,) = blocks("markdown")
    draft = codec.parse(example).draft
    assert (draft.author, draft.topic, draft.replaces) == (
        "eng-backend",
        "users endpoint",
        ("syn-2026-01-30-042",),
    )
    agent, settings = blocks("yaml")
    found = declared.parse_agent(agent)
    assert (found.user, found.teams, found.skills[0].authority) == ("backend", ("core",), 75)
    read = declared.parse_settings(settings)
    assert (dict(read.ttl), dict(read.users), read.other) == (
        {"api/*": "30d"},
        {"alice": "eng-backend"},
        (),
    )


def test_it_names_every_field():
    table = re.findall(r"(?m)^\| (`.*?`) \|", PROTOCOL)
    assert {name for cell in table for name in re.findall(r"`(\w+)`", cell)} == codec._KEYS
