import pytest

import synapse


@pytest.fixture
def root(tmp_path, monkeypatch):
    path = str(tmp_path / "team")
    with synapse.init(path) as mem:
        mem.register(synapse.Agent("eng-a", write=("api/*",), read=("api/*",)))
        for text in ("The build takes 5 min.", "The build takes 5 minutes. It runs on web-1."):
            mem.as_agent("eng-a").append(text, "api/x")
    monkeypatch.setenv("SYNAPSE_ROOT", path)
    return path


def test_by_hand(run, root):
    assert run("propose", "--plan").out == "2 entries in 1 calls\n"
    assert run("propose", "--plan", "--json").json["calls"] == 1
    none = run("propose")
    assert (none.code, "no engine is named to propose: give --engine NAME" in none.err) == (
        64,
        True,
    )
    assert "InvalidEntry" not in none.err + none.out
    done = run("propose", "--engine", "scripted", "--max-tokens", "20000")
    assert (done.code, done.out.split(";")[0]) == (0, "0 staged, 0 not")
    assert "1 calls, 1 malformed answers" in done.out
    assert run("propose", "--plan").out == "0 entries in 0 calls\n"
    assert run("propose", "--engine", "nobody", "--json").json["asked"] == 0
