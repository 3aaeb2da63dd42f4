"""What embeds by itself: who is up beside a workspace, and the night. Nothing else."""

import asyncio
import subprocess
import sys

import pytest

import synapse
from orchestrator.nightly import job
from synapse.search import background, semantic
from tests.trusted import trust

pytest.importorskip("onnxruntime")

TEXTS = ("the deploy is frozen until monday", "no release before next week")


def workspace(root, settings=""):
    with synapse.init(str(root)) as mem:
        mem.register(synapse.Agent("ana", read=["*"], write=["*"]))
    with open(root / "synapse.yaml", "a", encoding="utf-8") as file:
        file.write(settings)
    return synapse.open(str(root))


@pytest.fixture
def mem(tmp_path):
    with workspace(tmp_path / "w") as mem:
        for text in TEXTS:
            mem.as_agent("ana").append(text, "api/x")
        yield mem


def bodies(mem, text, mode=None):
    return [hit.body for hit in mem.as_agent("ana").search(text, mode=mode)]


def test_what_waits_is_embedded_beside_whoever_stays_up(mem, monkeypatch):
    monkeypatch.setattr(background, "LOOK_EVERY", 0.1)
    notes = []

    async def up():
        async with background.embedding(mem.store, notes.append, sends=False):
            while await asyncio.to_thread(background.is_due, mem.store):
                await asyncio.sleep(0.1)

    question = "when may we ship again?"
    assert bodies(mem, question) == []
    asyncio.run(up())
    assert notes == []
    assert set(bodies(mem, question)) == set(TEXTS)
    assert bodies(mem, question, "words") == []


def test_a_night_embeds_what_waits(mem):
    job.embed_waiting(mem.store)
    assert semantic.waiting(mem.store) == 0
    assert len(bodies(mem, "when may we ship again?")) == 2


def test_a_failure_is_noted_and_tried_later(mem, monkeypatch):
    monkeypatch.setattr(background, "LOOK_EVERY", 0.1)
    monkeypatch.setattr(background, "_embed", _fails)
    notes = []

    async def up():
        async with background.embedding(mem.store, notes.append):
            await asyncio.sleep(0.6)

    asyncio.run(up())
    assert notes == ["entries are embedded later: OSError: no memory"]


async def _fails(root, stop):
    raise OSError("no memory")


@pytest.mark.parametrize("off", ["off", "'off'"])
def test_a_workspace_may_turn_it_off(tmp_path, off):
    with workspace(tmp_path / "w", f"semantic: {{embedder: {off}}}\n") as mem:
        mem.as_agent("ana").append(TEXTS[0], "api/x")
        assert mem.store.operator_files.complaints == {}
        assert mem.store.embeddings.semantic.embedder == ""
        assert not background.is_due(mem.store)
        assert bodies(mem, "frozen deploys") == [TEXTS[0]]
        with pytest.raises(synapse.SynapseError, match="there is no embedder"):
            mem.as_agent("ana").search("frozen", mode="meaning")


def test_a_named_one_wins_and_gets_texts_only_from_who_may_send(tmp_path, embeddings):
    named = f"semantic: {{embedder: openai, url: '{embeddings.url}/v1', model: words}}"
    with workspace(tmp_path / "w", f"{named}\n") as mem:
        trust(tmp_path / "w")
        mem.as_agent("ana").append(TEXTS[0], "api/x")
        assert mem.store.embeddings.semantic.embedder == "openai"
        assert background.is_due(mem.store)
        assert not background.is_due(mem.store, sends=False)


def test_a_folder_of_weights_is_told_what_takes_its_place(tmp_path):
    old = "semantic: {embedder: local, folder: models/minilm}\n"
    with workspace(tmp_path / "w", old) as mem:
        mem.as_agent("ana").append(TEXTS[0], "api/x")
        mem.store.refresh(whole=True)
        assert "take the line out" in str(mem.store.operator_files.complaints["synapse.yaml"])
        assert mem.store.embeddings.semantic.embedder == "local"


def test_neither_import_nor_append_nor_a_search_of_words_loads_it(mem):
    job.embed_waiting(mem.store)
    code = (
        "import sys, synapse\n"
        f"with synapse.open({mem.store.root!r}) as mem:\n"
        "    ana = mem.as_agent('ana')\n"
        "    ana.append('one more', 'api/x')\n"
        "    ana.briefing()\n"
        "    ana.search('deploy', mode='words')\n"
        "print('onnxruntime' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "False"
