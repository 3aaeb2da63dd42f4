import json
import os


def test_export_and_import_keep_everything(wrote, run, tmp_path):
    ids = [wrote(f"body {n}", "--topic", "t") for n in range(3)]
    run("archive", "--from", "eng-backend", ids[2])
    done = run("export", tmp_path / "out.jsonl")
    assert done.code == 0
    head = json.loads(run("verify", "--json").out)["head"]
    assert done.out == f"8 written to {tmp_path}/out.jsonl, head {head}\n"
    digest = json.loads(run("rebuild", "--json").out)["digest"]
    run("init", tmp_path / "copy")
    done = run("import", "--root", tmp_path / "copy", tmp_path / "out.jsonl")
    assert (done.code, done.out) == (0, f"8 records imported, head {head}\n")
    assert json.loads(run("rebuild", "--root", tmp_path / "copy", "--json").out)["digest"] == digest
    assert run("verify", "--root", tmp_path / "copy").code == 0


def test_export_to_standard_output_is_json_lines(wrote, shell, run, tmp_path):
    wrote("привет")
    done = shell("export")
    assert done.code == 0
    assert len([json.loads(line) for line in done.out.splitlines()]) == 5
    run("init", tmp_path / "copy")
    taken = shell("import", "-", "--root", tmp_path / "copy", "--json", stdin=done.out)
    assert json.loads(taken.out) == {
        "records": 5,
        "head": json.loads(run("verify", "--json").out)["head"],
    }
    assert "привет" in run("read", "--root", tmp_path / "copy").out


def test_the_head_tells_an_export_whose_end_is_missing(wrote, run, tmp_path):
    wrote()
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    head = json.loads(run("export", "--json", whole).out)["head"]
    cut.write_text(
        "".join(whole.read_text(encoding="utf-8").splitlines(keepends=True)[:-1]), encoding="utf-8"
    )
    run("init", tmp_path / "copy")
    done = run("import", "--root", tmp_path / "copy", cut)
    assert done.out.startswith("4 records imported, head 4:")
    assert run("verify", "--root", tmp_path / "copy", "--head", head).code == 6


def test_an_empty_export_is_imported_as_nothing(run, tmp_path):
    run("init", tmp_path / "copy")
    (tmp_path / "empty.jsonl").touch()
    assert run("import", "--root", tmp_path / "copy", tmp_path / "empty.jsonl").code == 0
    done = run("import", "--root", tmp_path / "copy", tmp_path / "none.jsonl")
    assert (done.code, done.err) == (3, f"synapse: there is no file {tmp_path}/none.jsonl\n")


def test_an_export_never_replaces_a_file(wrote, run, tmp_path):
    (tmp_path / "precious").write_text("mine")
    done = run("export", tmp_path / "precious")
    assert done.code == 5
    assert "precious" in done.err
    assert (tmp_path / "precious").read_text() == "mine"


def test_what_is_no_export_is_refused(team, run, tmp_path):
    (tmp_path / "junk").write_text('{"hello": "world"}\n')
    run("init", tmp_path / "copy")
    assert run("import", "--root", tmp_path / "copy", tmp_path / "junk").code == 64
    assert run("import", "--root", tmp_path / "copy", tmp_path / "missing").code == 3
    run("export", tmp_path / "out")
    assert run("import", tmp_path / "out").code == 5


def test_import_says_where_it_is_not_utf8(run, tmp_path):
    (tmp_path / "junk").write_bytes(b"\xff\xfe\n")
    run("init")
    done = run("import", tmp_path / "junk")
    assert done.code == 64
    assert "UTF-8" in done.err


def test_for_other_readers(wrote, run, tmp_path):
    id = wrote("привет")
    for generation in ("A", "B"):
        place = tmp_path / generation
        assert run("export", place, "--as-generation", generation).code == 0
        files = [
            os.path.join(folder, name) for folder, _, names in os.walk(place) for name in names
        ]
        assert files == [str(place / "entries" / "api" / "endpoints" / f"{id}.md")]
        with open(files[0], encoding="utf-8") as file:
            assert file.read().endswith("\n\nпривет\n")
    row = json.loads(run("export", "--as-generation", "C").out)
    assert (row["from_agent"], row["content"]) == ("eng-backend", "привет")
    line = json.loads(run("export", "--as-generation", "A").out)
    assert line["path"] == f"entries/api/endpoints/{id}.md"
    assert run("export", "--as-generation", "D").code == 64


def test_a_snapshot_is_taken_checked_and_restored(wrote, run, tmp_path):
    wrote("body")
    taken = json.loads(run("backup", tmp_path / "kept", "--json").out)
    checked = run("backup", "--check", taken["path"])
    assert (checked.code, checked.out) == (
        0,
        f"{taken['path']}: {taken['records']} records, head {taken['head']}\n",
    )
    run("backup", tmp_path / "kept", "--keep", "1")
    assert len(os.listdir(tmp_path / "kept")) == 1
    assert run("backup", "--check", taken["path"]).code == 3
    run("init", tmp_path / "copy")
    (kept,) = (tmp_path / "kept").iterdir()
    restored = run("import", "--root", tmp_path / "copy", kept)
    assert (restored.code, restored.out.split(":")[0]) == (
        0,
        f"{taken['records']} records restored",
    )
    assert run("import", "--root", tmp_path / "copy", kept).code == 5
    (kept / "log.jsonl").write_text("")
    assert run("backup", "--check", kept).code == 6
