"""What was once taken without a word, and helped nobody: it is refused, and says what to write."""

import os

import pytest

import synapse
from synapse.errors import InvalidEntry, NotFound


@pytest.fixture
def mem(tmp_path):
    with synapse.init(str(tmp_path / "ws")) as memory:
        memory.register(synapse.Agent("eng-a", teams=("web",), write=("*",)))
        memory.register(synapse.Agent("eng-b"))
        yield memory


@pytest.mark.parametrize("place", ["", "  "])
@pytest.mark.parametrize("opens", [synapse.init, synapse.open])
def test_an_empty_path_is_no_workspace(tmp_path, monkeypatch, place, opens):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidEntry, match=r"write '\.' for this folder"):
        opens(place)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("to", ["bob", "agent:bob", ["eng-b", "bob"]])
def test_nobody_of_that_name_is_written_to(mem, to):
    me = mem.as_agent("eng-a")
    before = mem.verify().head
    with pytest.raises(NotFound, match="nothing was written: agent bob is not registered"):
        me.append("Look at this.", "status/web", to=to)
    assert mem.verify().head == before
    for known in ("eng-b", "team:later", "operator", "all", ["eng-b", "team:web"]):
        assert me.append("Look at this.", "status/web", to=known).addressees


def test_commas_name_no_tags(mem):
    me = mem.as_agent("eng-a")
    with pytest.raises(InvalidEntry, match="',,,' names nothing"):
        me.append("Text", "status/web", tags=",,,")
    assert me.append("Text", "status/web", tags="").tags == ()
    assert me.append("Text", "status/web", tags="a,,b,").tags == ("a", "b")


@pytest.mark.parametrize(
    ("agent", "told"),
    [
        (synapse.Agent("x", projects=("P P",)), "the project 'P P' is not valid: a-z"),
        (synapse.Agent("x", teams=("T T",)), "the team or department 'T T' is not valid"),
    ],
)
def test_a_project_that_is_no_name_is_named(mem, agent, told):
    with pytest.raises(InvalidEntry, match=told):
        mem.register(agent)


def test_who_is_not_registered_is_told_so_in_both_tongues(mem):
    with pytest.raises(NotFound, match=r"memory\.register\(Agent\('zoe'\)\), or `synapse"):
        mem.as_agent("zoe")
