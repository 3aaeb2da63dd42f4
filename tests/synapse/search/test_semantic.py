import os
import signal
import subprocess
import sys
import time

import pytest

import synapse
from synapse.errors import EmbedderError, InvalidQuery
from synapse.index.vectors.embeddable import text_of
from synapse.log.files import FilesLog
from synapse.model.entry import SEALED
from synapse.model.settings import Semantic, Settings
from synapse.search import semantic
from synapse.testing import FrozenClock
from synapse.trust.workspace_keys import WorkspaceKeys
from tests.trusted import trust

BODIES = ("deploys are frozen until Friday", "the avatar endpoint returns 404", "lunch is at noon")


@pytest.fixture
def chosen(embeddings):
    return Semantic("openai", url=f"{embeddings.url}/v1", model="words")


@pytest.fixture
def mem(tmp_path, chosen):
    found = workspace(tmp_path / "w", chosen)
    yield found
    found.close()


def workspace(root, chosen, **more):
    with synapse.init(str(root), **more):
        pass
    with (root / "synapse.yaml").open("a") as file:
        file.write(
            f"semantic:\n  embedder: {chosen.embedder}\n  url: {chosen.url}\n  model:"
            f" {chosen.model}\n"
        )
    trust(root)
    found = synapse.open(str(root), **more)
    found.register(synapse.Agent("cto", role="cto"))
    found.register(synapse.Agent("junior", review_required=True, read=("api/*",), write=("api/*",)))
    found.register(synapse.Agent("ops", read=("ops/*",), write=("ops/*",)))
    return found


def write(mem, *bodies, namespace="api/x", **more):
    return [mem.as_agent("cto").append(body, namespace, **more) for body in bodies]


def told(embeddings):
    """What the embedder was given, in order, without its authors."""
    return [text.partition(": ")[2] for text in embeddings.heard]


def held(mem):
    """The ids whose vectors are kept."""
    store = mem.store
    rows = store.embeddings.vectors.db.connection.execute(
        "select distinct seq from vectors"
    ).fetchall()
    ids = dict(store.index.db.connection.execute("select rec, id from texts"))
    return {ids[seq] for (seq,) in rows}


# -- the queue -------------------------------------------------------------------------------------


def test_what_is_not_embedded_is_embedded_once(mem, embeddings):
    entries = write(mem, *BODIES)
    assert semantic.waiting(mem.store) == 3
    assert semantic.embed(mem.store, 2) == ("openai/words", 2, 0, 1)
    assert semantic.embed(mem.store) == ("openai/words", 1, 0, 0)
    assert semantic.embed(mem.store) == ("openai/words", 0, 0, 0)
    assert sorted(told(embeddings)) == sorted(BODIES)
    assert embeddings.heard[0].startswith("cto: ")
    assert held(mem) == {entry.id for entry in entries}


def test_more_than_a_stretch_and_many_batches(mem, embeddings, monkeypatch):
    monkeypatch.setattr(semantic, "SCAN", 7)
    monkeypatch.setattr(semantic, "BATCH", 3)
    bodies = [f"text number {number}" for number in range(25)]
    write(mem, *bodies)
    assert semantic.embed(mem.store, 10)[1:] == (10, 0, 15)
    write(mem, "one more")
    assert semantic.embed(mem.store)[1:] == (16, 0, 0)
    assert sorted(told(embeddings)) == sorted([*bodies, "one more"])


def test_staged_text_waits_for_its_approval(mem, embeddings):
    waiting = mem.as_agent("junior").append("not yet reviewed", "api/x")
    semantic.embed(mem.store)
    assert told(embeddings) == []
    mem.as_agent("cto").approve(waiting.id)
    semantic.embed(mem.store)
    assert told(embeddings) == ["not yet reviewed"]


def test_what_was_turned_away_or_quarantined_is_never_embedded(mem, embeddings, tmp_path):
    waiting = mem.as_agent("junior").append("not good enough", "api/x")
    mem.as_agent("cto").reject(waiting.id)
    folder = tmp_path / "w/entries/api/x"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bad.md").write_text("---\nfrom: [\n---\nmalformed")
    os.utime(folder / "bad.md", (1, 1))
    time.sleep(0.25)
    mem.store.refresh(whole=True)
    assert list((tmp_path / "w/quarantine").rglob("*bad*"))
    semantic.embed(mem.store)
    assert told(embeddings) == []


@pytest.mark.parametrize(
    "sealed", [*({"scope": scope} for scope in sorted(SEALED)), {"scope": "public", "pii": True}]
)
def test_sealed_text_is_never_embedded(sealed):
    assert text_of({"author": "a", "scope": "public"}, "secret") == "a: secret"
    assert text_of({"author": "a", **sealed}, "secret") is None


def test_a_sealed_entry_in_the_log_is_passed_over(mem, embeddings):
    WorkspaceKeys(mem.store).new()
    mem.as_agent("cto").append("the launch code", "api/x", scope="private", to="cto")
    write(mem, "said to all")
    assert semantic.embed(mem.store)[1:] == (1, 0, 0)
    assert told(embeddings) == ["said to all"]


def test_what_is_archived_leaves_and_what_is_restored_comes_back(mem, embeddings):
    one, two, _ = write(mem, *BODIES)
    semantic.embed(mem.store)
    mem.as_agent("cto").archive(one.id)
    write(mem, "another")
    semantic.embed(mem.store)
    assert one.id not in held(mem)
    assert two.id in held(mem)
    assert len(embeddings.heard) == 4, "the others were not embedded again"
    mem.as_agent("cto").restore(one.id)
    semantic.embed(mem.store)
    assert one.id in held(mem)
    assert told(embeddings)[4:] == [BODIES[0]]


def test_a_text_that_was_changed_is_embedded_anew(mem, embeddings):
    """As a redaction does, or a log that took another's place: the vector of the old text is
    gone.
    """
    one, *_ = write(mem, *BODIES)
    semantic.embed(mem.store)
    mem.store.index.db.connection.execute(
        "update texts set body = 'redacted' where id = ?", (one.id,)
    )
    mem.store.embeddings.vectors.rewind("openai/words", 0)
    before = mem.store.embeddings.vectors.db.connection.execute(
        "select count(*), sum(num) from vectors"
    ).fetchone()
    semantic.embed(mem.store)
    assert told(embeddings)[3:] == ["redacted"]
    after = mem.store.embeddings.vectors.db.connection.execute(
        "select count(*), sum(num) from vectors"
    ).fetchone()
    assert after[0] == before[0]
    assert after[1] > before[1]


def test_vectors_follow_a_journal_that_is_another_one(mem, embeddings):
    """As after a checkout: at one place stands another text, and only that one is embedded."""
    kept = write(mem, BODIES[0])[0]
    path = f"{mem.store.root}/journal/000000000001.jsonl"
    with open(path, "rb") as file:
        before = file.read()
    write(mem, BODIES[1])
    semantic.embed(mem.store)
    with open(path, "wb") as file:
        file.write(before)
    mem.store.index.rebuild()
    other = write(mem, BODIES[2])[0]
    semantic.embed(mem.store)
    assert told(embeddings) == list(BODIES)
    assert held(mem) == {kept.id, other.id}


def test_superseded_text_is_not_worth_a_vector(mem, embeddings):
    (old,) = write(mem, "use /v1")
    write(mem, "use /v2", supersedes=old.id)
    semantic.embed(mem.store)
    assert told(embeddings) == ["use /v2"]


def test_a_text_that_is_refused_holds_up_no_other(mem, embeddings):
    write(mem, "fine", "too long for it", "fine as well")
    embeddings.refuses = ("too long",)
    assert semantic.embed(mem.store)[1:] == (2, 1, 0)
    assert semantic.embed(mem.store)[1:] == (0, 0, 0), "it is not asked for again"
    assert mem.store.embeddings.vectors.amounts("openai/words") == (3, 1)


def test_an_embedder_that_refuses_everything_is_told_of(mem, embeddings):
    write(mem, *BODIES)
    embeddings.refuses = ("",)
    with pytest.raises(EmbedderError, match="refuses every text"):
        semantic.embed(mem.store)
    embeddings.refuses = ()
    assert semantic.embed(mem.store)[1:] == (3, 0, 0)


def test_a_failure_leaves_the_rest_waiting(mem, embeddings, monkeypatch):
    monkeypatch.setattr(semantic, "BATCH", 1)
    write(mem, *BODIES)
    embeddings.answers += [
        lambda handler, asked: embeddings.answer(handler.path, asked),
        lambda *_: (503, b"busy"),
    ]
    with pytest.raises(EmbedderError, match="503"):
        semantic.embed(mem.store)
    assert semantic.waiting(mem.store) == 2
    assert semantic.embed(mem.store)[1:] == (2, 0, 0)
    assert told(embeddings) == list(BODIES)


def test_another_model_begins_anew_and_finds_its_own(mem, embeddings, tmp_path, chosen):
    write(mem, *BODIES)
    semantic.embed(mem.store)
    path = tmp_path / "w/synapse.yaml"
    path.write_text(path.read_text().replace("model: words", "model: other"))
    mem.store.refresh(whole=True)
    embeddings.dimension = 32
    assert [*mem.as_agent("cto").search("deploys", mode="meaning")] == []
    assert semantic.embed(mem.store) == ("openai/other", 3, 0, 0)
    assert mem.as_agent("cto").search("deploys frozen", mode="meaning")[0].body == BODIES[0]
    assert [(name, width) for name, width, *_ in mem.store.embeddings.vectors.models()] == [
        ("openai/other", 32), ("openai/words", 512),
    ]  # fmt: skip


def test_the_vectors_may_be_deleted(mem, embeddings, tmp_path):
    write(mem, *BODIES)
    semantic.embed(mem.store)
    digest = mem.digest()
    mem.close()
    for path in (tmp_path / "w/.index").glob("vectors.db*"):
        path.unlink()
    with synapse.open(str(tmp_path / "w")) as again:
        assert again.digest() == digest
        assert semantic.embed(again.store)[1:] == (3, 0, 0)
        assert again.digest() == digest


def test_a_rebuilt_index_keeps_its_vectors(mem, embeddings):
    write(mem, *BODIES)
    semantic.embed(mem.store)
    mem.rebuild()
    assert semantic.embed(mem.store)[1:] == (0, 0, 0)
    assert mem.as_agent("cto").search("deploys frozen", mode="meaning")[0].body == BODIES[0]


_EMBED = """
import sys, synapse
from synapse.search import semantic
semantic.BATCH = 2
with synapse.open(sys.argv[1]) as mem:
    print("begun", flush=True)
    semantic.embed(mem.store)
"""


def killed_and_resumed(mem, embeddings, root, rounds=6):
    """Embed in processes that are killed at any moment, then to the end; how many vectors each
    entry has.
    """
    for number in range(rounds):
        child = subprocess.Popen([sys.executable, "-c", _EMBED, str(root)], stdout=subprocess.PIPE)
        child.stdout.readline()
        time.sleep(0.01 * number)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
    semantic.embed(mem.store)
    rows = mem.store.embeddings.vectors.db.connection.execute(
        "select seq, count(*) from vectors group by seq"
    ).fetchall()
    return dict(rows)


def test_whoever_is_killed_nothing_is_kept_twice_and_nothing_missed(mem, embeddings, tmp_path):
    entries = write(mem, *(f"text number {number}" for number in range(40)))
    kept = killed_and_resumed(mem, embeddings, tmp_path / "w")
    assert kept == {entry.seq: 1 for entry in entries}
    texts = told(embeddings)
    assert set(texts) == {entry.body for entry in entries}
    assert len(texts) <= 40 + 6 * 2, "a killed process lost a batch at most"


def test_a_queue_that_notes_its_place_first_would_be_caught(mem, embeddings):
    """The check of the test above sees what is missed."""
    write(mem, *BODIES)
    semantic.embed(mem.store, 1)
    model = mem.store.embeddings.vectors.model("openai/words")
    mem.store.embeddings.vectors.db.run(
        "reach", {"model": model.num, "reached": mem.store.index.cursor()}
    )
    semantic.embed(mem.store)
    assert len(held(mem)) < 3


def test_two_at_once_share_the_work(mem, embeddings, tmp_path):
    entries = write(mem, *(f"text number {number}" for number in range(40)))
    children = [
        subprocess.Popen([sys.executable, "-c", _EMBED, str(tmp_path / "w")]) for _ in range(2)
    ]
    assert [child.wait(60) for child in children] == [0, 0]
    assert sorted(told(embeddings)) == sorted(entry.body for entry in entries)


def test_following_embeds_what_comes(mem, embeddings, monkeypatch):
    monkeypatch.setattr(semantic, "PAUSE", 0.01)
    write(mem, BODIES[0])
    queues = semantic.follow(mem.store)
    assert next(queues).embedded == 1
    write(mem, BODIES[1])
    assert next(queues).embedded == 1


# -- long texts ------------------------------------------------------------------------------------


def test_a_long_text_is_found_by_any_part_of_it(mem, embeddings):
    filler = " ".join(f"filler{number}" for number in range(400))
    (long,) = write(mem, f"{filler}\n\nthe zebra crossing is closed\n\n{filler}")
    write(mem, *BODIES)
    semantic.embed(mem.store)
    hits = mem.as_agent("cto").search("zebra crossing closed", mode="meaning")
    assert hits[0].id == long.id
    assert [hit.id for hit in hits].count(long.id) == 1


@pytest.mark.parametrize(
    "text",
    ["", " ", "one line", "word " * 900, "x" * 4_321, "a.\n\n" * 800, "ü" * 999 + " " + "ö" * 999],
)
def test_parts_are_the_text_and_no_longer_than_is_seen(text):
    found = semantic.parts(text)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(0 < len(part) <= semantic.PART for part in found)


def test_of_a_text_without_an_end_the_beginning_counts():
    assert len(semantic.parts("word " * 100_000)) == semantic.PARTS


# -- searching -------------------------------------------------------------------------------------


def test_meaning_finds_what_the_words_do_not(mem, embeddings):
    """To this embedder, texts with a word in common are near; full text wants every word, or then
    any.
    """
    write(mem, *BODIES)
    semantic.embed(mem.store)
    me = mem.as_agent("cto")
    assert me.search("avatar endpoint", mode="meaning")[0].body == BODIES[1]
    both = me.search("avatar endpoint 404")
    assert both[0].body == BODIES[1]
    assert both[0].score == pytest.approx(1.7)
    assert both.note == ""


def test_modes_are_three(mem, embeddings):
    write(mem, *BODIES)
    semantic.embed(mem.store)
    before = len(embeddings.heard)
    me = mem.as_agent("cto")
    assert me.search("deploys", mode="words")[0].body == BODIES[0]
    assert len(embeddings.heard) == before, "words alone ask no embedder"
    with pytest.raises(InvalidQuery, match="words, meaning, both"):
        me.search("deploys", mode="hybrid")


def test_search_is_by_words_where_the_settings_say_so(mem, embeddings, tmp_path):
    write(mem, *BODIES)
    semantic.embed(mem.store)
    with (tmp_path / "w/synapse.yaml").open("a") as file:
        file.write("  search: off\n")
    mem.store.refresh(whole=True)
    before = len(embeddings.heard)
    assert mem.as_agent("cto").search("deploys")[0].body == BODIES[0]
    assert len(embeddings.heard) == before
    assert mem.as_agent("cto").search("deploys", mode="both")[0].body == BODIES[0]
    assert len(embeddings.heard) > before


def test_an_embedder_that_fails_is_told_of_and_full_text_answers(mem, embeddings):
    write(mem, *BODIES)
    semantic.embed(mem.store)
    me = mem.as_agent("cto")
    embeddings.answers += [lambda *_: (500, b"out of memory")] * 2
    hits = me.search("deploys")
    assert [hit.body for hit in hits] == [BODIES[0]]
    assert "out of memory" in hits.note
    with pytest.raises(EmbedderError, match="out of memory"):
        me.search("deploys", mode="both")


def test_without_an_embedder_nothing_changes(tmp_path):
    with synapse.init(str(tmp_path / "plain")) as mem:
        mem.register(synapse.Agent("cto", role="cto"))
        write(mem, *BODIES)
        assert mem.as_agent("cto").search("deploys")[0].body == BODIES[0]
        assert not (tmp_path / "plain/.index/vectors.db").exists()
        mem.store.operator_files.declare(Settings(semantic=Semantic("off")))
        with pytest.raises(EmbedderError, match="there is no embedder"):
            mem.as_agent("cto").search("deploys", mode="meaning")
        with pytest.raises(EmbedderError, match="there is no embedder"):
            semantic.embed(mem.store)


def test_nothing_is_found_that_the_reader_may_not_see_or_that_is_gone(tmp_path, chosen, embeddings):
    clock = FrozenClock()
    mem = workspace(tmp_path / "w", chosen, clock=clock)
    (secret,) = write(mem, "deploys frozen by the board", to="agent:ops")
    write(mem, "deploys frozen for an hour", ttl="1h")
    (done,) = write(mem, "deploys frozen no more")
    (kept,) = write(mem, "deploys frozen until Friday")
    semantic.embed(mem.store)
    mem.as_agent("cto").resolve(done.id)
    clock.advance("2h")

    def found(agent, **more):
        return {
            hit.id for hit in mem.as_agent(agent).search("deploys frozen", mode="meaning", **more)
        }

    assert found("junior") == {kept.id}
    assert found("ops") == {secret.id}
    assert found("cto") == {kept.id, secret.id}
    assert found("cto", namespace="elsewhere/*") == set()
    mem.close()


def test_who_sees_little_finds_it_below_much_that_it_does_not_see(mem, embeddings, monkeypatch):
    monkeypatch.setattr(semantic, "LOOK", 5)
    monkeypatch.setattr(semantic, "STEP", 2)
    write(mem, *(f"deploys are frozen {'very ' * number}much" for number in range(1, 30)))
    (own,) = write(mem, "frozen pizza for deploys team", namespace="ops/food")
    semantic.embed(mem.store)
    assert [hit.id for hit in mem.as_agent("ops").search("deploys are frozen", mode="meaning")] == [
        own.id
    ]
    assert [hit.id for hit in mem.as_agent("ops").search("deploys are frozen")] == [own.id]


def test_parts_of_others_do_not_hide_what_one_sees(mem, embeddings, monkeypatch):
    """The nearest vectors may all be parts of one text."""
    monkeypatch.setattr(semantic, "LOOK", 5)
    write(
        mem, "\n\n".join(f"deploys are frozen {'and frozen ' * 80}{number}" for number in range(12))
    )
    (own,) = write(mem, "frozen pizza for deploys team", namespace="ops/food")
    semantic.embed(mem.store)
    assert [hit.id for hit in mem.as_agent("ops").search("deploys are frozen", mode="meaning")] == [
        own.id
    ]


def test_archived_text_has_no_vector_and_is_found_by_words(mem, embeddings):
    one, two = write(mem, "deploys are frozen", "deploys are slow")
    semantic.embed(mem.store)
    me = mem.as_agent("cto")
    me.archive(one.id)
    assert [hit.id for hit in me.search("deploys", mode="meaning")] == [two.id], (
        "before the vector is gone, too"
    )
    semantic.embed(mem.store)
    assert [hit.id for hit in me.search("deploys", mode="meaning", archived=True)] == []
    assert [hit.id for hit in me.search("deploys frozen", archived=True)] == [one.id]


def test_limits_hold(mem, embeddings):
    write(mem, *(f"deploys are frozen {number}" for number in range(20)))
    semantic.embed(mem.store)
    for mode in semantic.MODES:
        assert len(mem.as_agent("cto").search("deploys frozen", limit=7, mode=mode)) == 7
        assert len(mem.as_agent("cto").search("deploys frozen", limit=0, mode=mode)) == 0


@pytest.mark.parametrize(
    "query", ["", "   ", '"', "AND", "*", "-", "a" * 10_000, "\0", "🎉", "NEAR(", "\ud800"]
)
def test_anything_may_be_asked(mem, embeddings, query):
    write(mem, *BODIES)
    semantic.embed(mem.store)
    for mode in (None, *semantic.MODES):
        assert len(mem.as_agent("cto").search(query, mode=mode)) <= 10


def test_the_log_knows_nothing_of_it(mem, embeddings):
    write(mem, *BODIES)
    assert isinstance(mem.store.log, FilesLog)
    before = mem.store.log.mark()
    semantic.embed(mem.store)
    mem.as_agent("cto").search("deploys")
    assert mem.store.log.mark() == before


@pytest.mark.parametrize(
    ("text", "is_ordered"),
    [
        ("In what order did we ship the features?", True),
        ("List the order in which I brought them up", True),
        ("name the deploys, in order", True),
        ("the chronological list of outages", True),
        ("в каком порядке выходили версии", True),
        ("what do we restart in order to deploy?", False),
        ("which orders does the shop refuse?", False),
        ("when is the deploy frozen?", False),
    ],
)
def test_an_order_is_asked_of_words_alone(mem, embeddings, text, is_ordered):
    write(mem, *BODIES)
    semantic.embed(mem.store)
    heard = len(embeddings.heard)
    mem.as_agent("cto").search(text)
    assert (len(embeddings.heard) == heard) == is_ordered
    mem.as_agent("cto").search(text, mode="both")
    assert len(embeddings.heard) > heard
