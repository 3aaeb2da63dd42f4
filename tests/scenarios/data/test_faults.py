"""What is wrong with a file that was named for brain-suite, in words."""

import json

import pytest

from scenarios.__main__ import main

WORDS = {"report": 1, "compare": 2, "retrieval": 1}


@pytest.mark.parametrize("verb", WORDS)
@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (None, "no such file or directory"),
        (b"{\n", "is no JSON: expecting property name enclosed in double quotes, in line 2"),
        (b"\xff", "is no text in UTF-8, from byte 0 on"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, capsys, verb, raw, told):
    path = tmp_path / "it.json"
    if raw is not None:
        path.write_bytes(raw)
    assert main([verb, *[str(path)] * WORDS[verb]]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"brain-suite: {path}: {told}")
    for word in ("Errno", "Error", "Traceback"):
        assert word not in line


def test_as_json_it_is_the_same_text(tmp_path, capsys):
    assert main(["retrieval", str(tmp_path / "none"), "--json"]) == 2
    failure = json.loads(capsys.readouterr().err)["error"]
    assert failure == {
        "type": "FileNotFoundError",
        "message": f"{tmp_path / 'none'}: no such file or directory",
    }
