"""The table of an entry's fields, and what follows from it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import synapse
from synapse import crypto
from synapse.formats import codec
from synapse.model.entry import Draft, Entry
from synapse.model.entry_fields import ALWAYS, FIELDS, NEVER, WHEN_SET, names_of

ROOT = Path(__file__).parents[3]
PROTOCOL = Path(synapse.__file__).with_name("PROTOCOL.md").read_text(encoding="utf-8")


def test_each_field_of_an_entry_and_of_a_draft_has_one_row():
    names = [field.name for field in FIELDS]
    assert sorted(names) == sorted({*Entry._fields, *Draft._fields})
    assert {field.sealed for field in FIELDS} <= {ALWAYS, WHEN_SET, NEVER}


def test_no_two_fields_have_one_name_in_a_file_or_in_json():
    keys = [field.key for field in FIELDS if field.key]
    assert len(keys) == len({*keys})
    wires = [field.wire for field in FIELDS if field.wire]
    assert len(wires) == len({*wires})


def test_what_stands_in_files_is_what_a_draft_has():
    """The gate stamps the rest: a file that claims it is not believed."""
    assert {field.name for field in FIELDS if field.key} == {*Draft._fields} - {"body", "more"}


def test_the_protocol_has_every_key():
    """What a program that knows no Python reads: each key of a file, each name under a seal."""
    keys = {f"`{field.key}`" for field in FIELDS if field.key}
    assert {key for key in keys if key not in PROTOCOL} == set()
    header = PROTOCOL.partition("**The header**")[2].partition("\n\n")[0]
    entry = Entry("syn-1", "a", "2026-02-01T01:00:00Z", "api", "info", "x", "7d")
    assert {name for name in json.loads(crypto.header(entry)) if f"`{name}`" not in header} == set()


def test_only_tags_are_lists_of_words():
    """Masking and the checks of texts name them; another list of words goes there as well."""
    assert names_of("words") == ("tags",)


def test_json_has_the_order_of_the_table():
    entry = Entry("syn-1", "a", "2026-02-01T01:00:00Z", "api", "info", "x", "7d")
    wires = [field.wire for field in FIELDS if field.name in Entry._fields]
    assert list(codec.entry_json(entry)) == wires


# -- a made-up field -------------------------------------------------------------------------------

ENTRY = "synapse/model/entry.py"
# All that a new field needs: the place, a line that stands there, what is put behind it.
PLACES = {
    "its row": (
        ("synapse/model/entry_fields.py", '_by_author("when", "moments", ALWAYS),'),
        '    _by_author("weather", "text", WHEN_SET),',
    ),
    "Draft": ((ENTRY, "more: More = NO_MORE\n    signature: str | None = None"), "    weather: str | None = None"),
    "Entry": ((ENTRY, "run: str | None = None\n    signature: str | None = None"), "    weather: str | None = None"),
    "append": (
        ("synapse/agent_memory.py", "evidence: str | None = None,"),
        "        weather: str | None = None,",
    ),
    "option": (
        ("synapse/cli/write.py", 'help="the evidence: a link, a commit, a file")'),
        '    add("--weather", metavar="TEXT", help="the weather")',
    ),
}  # fmt: skip
HANDED_ON = (("synapse/agent_memory.py", "evidence=evidence,"), "            weather=weather,")

SCRIPT = """
import json, sys
import synapse
from synapse import crypto
from synapse.access.gate import withheld
from synapse.acts import memory as acts
from synapse.authority import check_form
from synapse.cli.frame.show import details
from synapse.consolidate.plan import merge_key
from synapse.errors import InvalidEntry
from synapse.formats import codec
from synapse.integrity.redaction import _stays
from synapse.server import shapes
from synapse.trust.bearer import new_token
from synapse.wire import forms, parse
from tests.synapse.served import serving

root, id = sys.argv[1:]
with synapse.open(root) as mem:
    me = mem.as_agent("eng-a")
    entry = me.get(id)
    assert entry.weather == "rain", entry
    (text,) = (record.text for record in mem.store.log.since(0) if record.id == id)
    assert "\\nweather: rain\\n" in text, text
    assert codec.parse(text).draft.weather == "rain"
    assert me.read()[0].weather == "rain"
    form = json.loads(json.dumps(codec.entry_json(entry)))
    assert form["weather"] == "rain"
    assert parse.entry(form) == entry
    assert shapes.Entry.model_validate(form).weather == "rain"
    draft = synapse.Draft("text", "api/x", "eng-a", weather="rain")
    assert forms.draft_json(draft)["weather"] == "rain"
    assert "weather" in acts.append.inputs
    without = entry._replace(weather=None)
    assert json.loads(crypto.header(entry)) == json.loads(crypto.header(without)) | {"weather": "rain"}
    assert b"weather" not in crypto.header(without)
    assert "weather rain" in details(entry)
    assert merge_key(entry) != merge_key(without)
    assert withheld(entry).weather is None
    assert "weather" in _stays(entry)
    masked = me.append("text", "api/x", weather="password: hunter2hunter2hunter2")
    assert "hunter2" not in masked.weather, masked.weather
    asked = me.append("text", "api/x", weather="ask jane.doe@corp-mail.com")
    assert "jane.doe" not in asked.weather, asked.weather
    for wrong, error in (("a\\0b", InvalidEntry), (5, InvalidEntry)):
        try:
            me.append("text", "api/x", weather=wrong)
        except error:
            continue
        raise AssertionError(wrong)
    tokens = root + "/../tokens"
    with serving(mem, tokens) as address, synapse.connect(address, new_token(tokens, "eng-a")) as remote:
        assert remote.get(id) == entry
        assert me.get(remote.append("text", "api/x", weather="hail").id).weather == "hail"
        assert me.get(remote.write(draft).id).weather == "rain"
    assert mem.verify().ok
"""


def with_a_field(folder, places):
    """A copy of the package with these lines in it."""
    origin = Path(synapse.__file__).parent
    shutil.copytree(origin, folder / "synapse", ignore=shutil.ignore_patterns("__pycache__"))
    for (name, line), more in places:
        text = (folder / name).read_text()
        assert text.count(line) == 1, (name, line)
        (folder / name).write_text(text.replace(line, f"{line}\n{more}"))

    def python(*arguments):
        names = {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}", "SYNAPSE_AGENT": "eng-a"}
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=folder,
            env=names,
            check=False,
        )

    return python


def test_a_new_field_takes_five_places(tmp_path):
    """Written by the shell and over HTTP, it is in the file, the journal, JSON, the seal and the
    checks.
    """
    assert len(PLACES) <= 5
    python = with_a_field(tmp_path, [*PLACES.values(), HANDED_ON])
    with synapse.init(tmp_path / "ws") as mem:
        mem.register(synapse.Agent("eng-a", read=("*",), write=("*",), authority=60))
    words = ("write", "Take an umbrella.", "--namespace", "api/x", "--weather", "rain")
    wrote = python("-m", "synapse", "--root", tmp_path / "ws", *words)
    assert wrote.returncode == 0, wrote.stderr
    read = python("-c", SCRIPT, tmp_path / "ws", wrote.stdout.split()[0])
    assert read.returncode == 0, read.stderr
    (segment,) = (tmp_path / "ws" / "journal").glob("*.jsonl")
    assert ',"weather":"rain"' in segment.read_text()
