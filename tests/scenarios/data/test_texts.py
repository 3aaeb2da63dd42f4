"""Tokens that a stranger counts again, from the texts beside the ledger."""

import gzip
import json
import shutil

import pytest

from scenarios import __main__ as shell
from scenarios.data import ledger, texts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("texts")
    asked = [
        "run",
        "landing_pages",
        "--runs",
        "1",
        "--arms",
        "isolated,broadcast,shipped",
        "--no-grid",
        "--quiet",
    ]
    assert shell.main([*asked, "--prompts", "--jobs", "1", "--out", str(found)]) in (0, 1)
    return found


@pytest.fixture
def copy(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    return tmp_path / "copy"


def recount(folder):
    return texts.recount(str(folder / "ledger.jsonl.gz"))


def rows(folder):
    with gzip.open(folder / texts.FILE, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def write(folder, rows):
    with gzip.open(folder / texts.FILE, "wt", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(row)}\n" for row in rows)


def test_every_token_of_every_call_is_counted_again(folder, capsys):
    found = recount(folder)
    runs = ledger.read(str(folder / "ledger.jsonl.gz"))
    billed = [
        event for run in runs for event in run.of("prompt", "completion") if event["segments"]
    ]
    assert found.segments == sum(len(event["segments"]) for event in billed)
    assert all(event["texts"] for event in billed), "each call says which texts came with it"
    assert (found.differences, found.missing) == ([], "")
    assert found.texts == len(rows(folder)) == len({row["sha256"] for row in rows(folder)})
    assert shell.main(["verify", str(folder), "--jobs", "1"]) == 0
    assert (
        f"ok: {found.segments} counts of tokens follow from {found.texts} texts"
        in capsys.readouterr().out
    )


def test_the_texts_are_what_agents_were_told(folder):
    kept = "\n".join(row["text"] for row in rows(folder))
    assert "You are eng-qa" in kept
    assert "Test each of the 4 landing pages at the commit that fixed it." in kept
    assert "## Shared Memory Context" in kept


def test_a_token_that_is_added_is_found(copy, capsys):
    path = str(copy / "ledger.jsonl.gz")
    runs = ledger.read(path)
    event = next(
        event for event in runs[1].of("prompt") if event["step"] > 0 and len(event["segments"]) > 3
    )
    event["segments"][2][1] += 1
    ledger.write(path, [line for run in runs for line in ledger.lines_of(run)])
    (difference,) = recount(copy).differences
    assert f"{event['run']}/{event['step']} prompt: {event['segments'][2][0]}" in difference
    assert shell.main(["verify", str(copy), "--jobs", "1"]) == 1


def test_a_text_that_is_changed_is_found_whether_or_not_its_name_is(copy):
    kept = rows(copy)
    place = next(n for n, row in enumerate(kept) if "You are eng-qa" in row["text"])
    changed = kept[place]["text"] + " Be quick."
    write(copy, [*kept[:place], kept[place] | {"text": changed}, *kept[place + 1 :]])
    assert "has another sha256" in recount(copy).differences[0]
    write(
        copy,
        [*kept[:place], {"text": changed, "sha256": texts.digest(changed)}, *kept[place + 1 :]],
    )
    assert any("no text has the sha256" in line for line in recount(copy).differences)


def test_without_the_texts_it_says_that_it_did_not_count(copy, capsys):
    (copy / texts.FILE).unlink()
    assert "nothing lies at" in recount(copy).missing
    assert shell.main(["verify", str(copy), "--jobs", "1"]) == 0
    assert "not checked: tokens" in capsys.readouterr().out


def test_a_run_without_them_leaves_none_of_another(copy):
    asked = [
        "run",
        "landing_pages",
        "--runs",
        "1",
        "--arms",
        "isolated",
        "--no-grid",
        "--quiet",
        "--jobs",
        "1",
    ]
    shell.main([*asked, "--out", str(copy)])
    assert not (copy / texts.FILE).exists()
    assert recount(copy) is None
