import json


def test_verify_proves_a_sound_workspace(wrote, run):
    wrote()
    done = run("verify")
    assert done.code == 0
    assert done.out.startswith("ok: 5 records, head ")
    found = json.loads(run("verify", "--json").out)
    assert (found["ok"], found["records"], found["problems"]) == (True, 5, [])


def test_verify_names_the_first_bad_record(wrote, run, team):
    id = wrote("as it was")
    path = team / "entries" / "api" / "endpoints" / f"{id}.md"
    path.write_text(path.read_text().replace("as it was", "as it wasn't"))
    done = run("verify")
    assert done.code == 6
    assert done.out.splitlines()[0] == "damaged: 1 problem"
    assert id in done.out.splitlines()[1]
    found = json.loads(run("verify", "--json").out)
    assert found["ok"] is False
    assert id in found["problems"][0]["where"]


def test_repair_restores_what_was_damaged(wrote, run, team):
    id = wrote("as it was")
    path = team / "entries" / "api" / "endpoints" / f"{id}.md"
    path.write_text("as it was not")
    assert run("verify").code == 6
    done = run("repair")
    assert done.code == 0, done.out
    assert done.out.startswith("put back: syn-")
    assert "\nok: " in done.out
    assert path.read_text().endswith("as it was\n")
    assert run("verify").code == 0
    assert "repaired" in run("log").out


def test_a_changed_journal_is_found(wrote, run, team):
    wrote("one"), wrote("two")
    journal = next(path for path in (team / "journal").iterdir() if path.stat().st_size > 500)
    raw = bytearray(journal.read_bytes())
    raw[raw.index(b"one")] ^= 1
    journal.write_bytes(raw)
    done = run("verify")
    assert done.code == 6
    assert "Traceback" not in done.err


def test_a_head_kept_elsewhere_proves_the_end(wrote, run, team):
    wrote("one")
    head = json.loads(run("verify", "--json").out)["head"]
    wrote("two")
    assert run("verify", "--head", head).code == 0
    for nonsense in ("junk", "3:abc", head.upper() + "0"):
        assert (run("verify", "--head", nonsense).code, run("verify", "--head", nonsense).out) == (
            64,
            "",
        )
    assert (
        run("verify", "--head", head.replace(head[-1], "0" if head[-1] != "0" else "1")).code == 6
    )


def test_rebuild_says_which_files_are_not_what_was_taken_in(wrote, run, team):
    id = wrote("as it was")
    path = team / "entries" / "api" / "endpoints" / f"{id}.md"
    path.write_text(path.read_text().replace("as it was", "as it wasn't"))
    done = run("rebuild")
    assert done.code == 6
    where = f"entries/api/endpoints/{id}.md"
    assert done.out.splitlines()[1:] == [
        "damaged: 1 problem",
        f"  {where}: was changed after it was written",
    ]
    assert json.loads(run("rebuild", "--json").out)["problems"][0]["where"] == where
    run("repair")
    assert run("rebuild").code == 0


def test_rebuild_derives_the_same_again(wrote, run, team):
    wrote()
    first = run("rebuild", "--json").out
    for path in (team / ".index").iterdir():
        if path.name.startswith("brain.db"):
            path.unlink()
    assert run("rebuild", "--json").out == first
    assert json.loads(first)["records"] == 5
    assert run("rebuild").out.startswith("5 records indexed, digest ")
