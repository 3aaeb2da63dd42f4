import pytest

import synapse


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "scout/memory").mkdir(parents=True)
    (tmp_path / "scout/MEMORY.md").write_text("- a\n- a\n")
    return tmp_path / "scout"


def test_a_cycle_and_its_plan(run, folder):
    assert run("defrag-agent", folder, "--plan").out == "- - a  (stands there twice)\n"
    assert (folder / "MEMORY.md").read_text() == "- a\n- a\n"
    done = run("defrag-agent", folder)
    assert (done.code, done.out.split("\n")[0]) == (
        0,
        "passed: 0 added, 1 removed, 0 notes archived",
    )
    assert run("defrag-agent", folder, "--plan").out == "nothing to do\n"
    assert run("defrag-agent", folder, "--json").json["verdict"] == "passed"


def test_a_nap_only_where_it_is_due(run, folder):
    assert run("defrag-agent", folder, "--nap", "--context", "0.6").out.startswith(
        "no nap: the context is 60% full"
    )
    assert (folder / "MEMORY.md").read_text() == "- a\n- a\n"
    assert run("defrag-agent", folder, "--nap", "--context", "0.8").out.startswith("passed")
    assert run("defrag-agent", folder, "--nap").out.startswith("passed")
    assert run("defrag-agent", folder, "--nap", "--context", "80").code == 64


def test_the_block_names_the_workspace(run, folder, tmp_path):
    synapse.init(str(tmp_path / "my team")).close()
    assert run("--root", tmp_path / "my team", "defrag-agent", folder, "--install").code == 0
    assert f"synapse --root '{tmp_path}/my team' defrag" in (folder / "DEFRAG.md").read_text()
    assert run("defrag-agent", folder, "--uninstall").code == 0
    assert not (folder / "DEFRAG.md").exists()
    assert run("defrag-agent", folder, "--install", "--plan").code == 64
