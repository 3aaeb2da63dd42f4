"""Our members in files that others write: nothing of theirs is lost, whatever they look like and
whatever is edited in between."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException

from orchestrator.plugin.install.change import Block, File, Json
from orchestrator.plugin.install.files import jsonc
from orchestrator.plugin.install.files.merge import merge, undo
from synapse.errors import Conflict
from tests.examples import examples

MARK = "/w/runs/.plugins/claude-code"
GROUP = {
    "matcher": "*",
    "hooks": [{"type": "command", "command": f"{MARK}/bin/hook", "timeout": 5}],
}
OURS = {
    "hooks": {"SessionStart": [GROUP], "Stop": [GROUP]},
    "mcpServers": {"synapse": {"command": f"{MARK}/bin/mcp", "args": []}},
}
CHANGE = Json("settings.json", OURS, MARK)

Install = Callable[[bytes], tuple[bytes, Any]]
Uninstall = Callable[[bytes, Any], bytes | None]


def put_in(data: bytes | None, change: Any = CHANGE, old: Any = ()) -> tuple[bytes, Any]:
    merged = merge("settings.json", data, [change], old)
    return merged.data, merged.pieces


def take_out(data: bytes, pieces: Any) -> bytes | None:
    return undo("settings.json", data, pieces)


# -- random documents ------------------------------------------------------------------------------

SCALARS = st.sampled_from(
    ["1", "-2.50", "1e400", "true", "false", "null", '"a, {b} // c"', '"\\ud83d\\ude00 é"', '""']
)
SPACES = st.sampled_from(["", " ", "\n", "\n  ", "\n\t", "\n\n    "])
COMMENTS = st.sampled_from(["", "", "", " /* a, } */", " // b ] {\n", "\n// c\n"])


class Maker:
    """Draws the text of a document; every string that may be edited is there once."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw, self.names = draw, 0

    def scalar(self) -> str:
        self.names += 1
        return f'"u{self.names}"' if self.draw(st.booleans()) else self.draw(SCALARS)

    def value(self, depth: int, shape: str | None = None) -> str:
        shape = shape or self.draw(
            st.sampled_from(["scalar", "scalar", "object", "list"] if depth else ["scalar"])
        )
        if shape == "scalar":
            return self.scalar()
        count = self.draw(st.integers(0, 3))
        keys = [f'"k{self.names + place}_{depth}"' for place in range(count)]
        self.names += count
        if shape == "object" and depth == 3:
            keys += self.draw(st.lists(st.sampled_from(['"hooks"', '"mcpServers"']), unique=True))
            keys = self.draw(st.permutations(keys))
        if shape == "object" and depth == 2:
            keys += self.draw(
                st.lists(st.sampled_from(['"SessionStart"', '"Stop"', '"other"']), unique=True)
            )
        return self.container(shape, keys, depth)

    def container(self, shape: str, keys: list[str], depth: int) -> str:
        items = []
        for key in keys:
            inner = {
                '"hooks"': "object",
                '"mcpServers"': "object",
                '"SessionStart"': "list",
                '"Stop"': "list",
            }.get(key)
            name = f"{key}{self.space()}:{self.space()}" if shape == "object" else ""
            items.append(f"{self.space()}{name}{self.value(depth - 1, inner)}{self.space()}")
        comma = self.draw(st.sampled_from(["", "", ","])) if items else ""
        opening, closing = "{}" if shape == "object" else "[]"
        return f"{opening}{','.join(items)}{comma}{self.space()}{closing}"

    def space(self) -> str:
        return self.draw(COMMENTS) + self.draw(SPACES)


@st.composite
def documents(draw: Callable[[Any], Any]) -> bytes:
    maker = Maker(draw)
    text = maker.value(3, "object")
    if draw(st.booleans()):
        text = json.dumps(
            jsonc_value(jsonc.parse(text)), indent=draw(st.sampled_from([None, 2, 4, "\t"]))
        )
    text = (
        draw(st.sampled_from(["", "\ufeff"]))
        + text
        + draw(st.sampled_from(["", "\n", "\n\n", " // end\n"]))
    )
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"]))).encode()


def jsonc_value(node: jsonc.Node) -> Any:
    if node.kind == "object":
        return {key: jsonc_value(item) for key, item in node.items}
    if node.kind == "list":
        return [jsonc_value(item) for _, item in node.items]
    return str(node.scalar.text) if isinstance(node.scalar, jsonc.Number) else node.scalar


EDITS = st.lists(
    st.tuples(
        st.integers(0, 11),
        st.sampled_from(
            [
                '"changed"',
                "[1, {}]",
                '"with" /* a comment */',
                '{"new": ["x"]}',
                '"x" // tail\n',
                "12",
            ]
        ),
    ),
    min_size=1,
    max_size=3,
)


def edited(data: bytes, edits: list[tuple[int, str]], names: list[bytes]) -> bytes:
    """Return a document in which some of the user's strings are other text."""
    for number, text in edits if names else []:
        data = data.replace(names[number % len(names)], text.encode())
    return data


def names_in(data: bytes) -> list[bytes]:
    return sorted(set(re.findall(rb'"u\d+"', data)))


def check(install: Install, uninstall: Uninstall, examples: int = 40) -> None:
    """Play install, edit, uninstall on random documents: what is left is what the edits alone would
    have left."""

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(documents(), EDITS)
    def play(data: bytes, edits: list[tuple[int, str]]) -> None:
        made, pieces = install(data)
        assert has_ours(made)
        assert user_values(made) == user_values(data)
        assert uninstall(made, pieces) == data
        names = names_in(data)
        assert uninstall(edited(made, edits, names), pieces) == edited(data, edits, names)

    play()


def has_ours(data: bytes) -> bool:
    root = jsonc.parse(data.decode()).value
    return (
        jsonc.plain(GROUP) in root["hooks"]["SessionStart"]
        and jsonc.plain(GROUP) in root["hooks"]["Stop"]
        and root["mcpServers"]["synapse"] == jsonc.plain(OURS["mcpServers"])["synapse"]
    )


def user_values(data: bytes) -> Any:
    root = jsonc.parse(data.decode()).value
    for name in ("SessionStart", "Stop"):
        items = root.get("hooks", {}).get(name, [])
        root.get("hooks", {}).pop(name, None) if all(
            item == jsonc.plain(GROUP) for item in items
        ) else None
    return {key: value for key, value in root.items() if key not in ("hooks", "mcpServers")}


@pytest.mark.parametrize("many", [40, pytest.param(150, marks=pytest.mark.soak)])
def test_random_documents_come_back_to_the_byte(many: int) -> None:
    check(put_in, take_out, many)


@examples(80, database=None, suppress_health_check=list(HealthCheck))
@given(documents(), EDITS)
def test_a_second_installation_changes_nothing(data: bytes, edits: list[tuple[int, str]]) -> None:
    made, pieces = put_in(data)
    names = names_in(data)
    made = edited(made, edits, names)
    again, more = put_in(made, CHANGE, pieces)
    assert again == made
    assert take_out(again, more) == edited(data, edits, names)


@examples(80, database=None, suppress_health_check=list(HealthCheck))
@given(documents(), EDITS)
def test_another_version_takes_the_place_of_ours(data: bytes, edits: list[tuple[int, str]]) -> None:
    older = Json(
        "settings.json", {"hooks": {"Stop": [{**GROUP, "matcher": "old"}], "End": [GROUP]}}, MARK
    )
    made, pieces = put_in(data, older)
    newer, more = put_in(edited(made, edits, names_in(data)), CHANGE, pieces)
    assert b'"old"' not in newer
    assert b'"End"' not in newer
    assert has_ours(newer)
    assert take_out(newer, more) == edited(data, edits, names_in(data))


# -- the check itself ------------------------------------------------------------------------------


def reserialised(data: bytes) -> tuple[bytes, Any]:
    value = jsonc_value(jsonc.parse(data.decode()))
    merged, _ = put_in(json.dumps(value).encode())
    return merged, value


def back_to_the_copy(data: bytes, pieces: Any) -> bytes | None:
    return json.dumps(pieces).encode()


def whole_members(data: bytes, pieces: Any) -> bytes | None:
    """Takes out `hooks` and `mcpServers`, whoever wrote them."""
    text = data.decode()
    for name in ("hooks", "mcpServers"):
        if jsonc.parse(text).get(name) is not None:
            text = jsonc.remove(text, (name,))
    return text.encode()


def without_the_comma(data: bytes, pieces: Any) -> bytes | None:
    text = data.decode()
    for piece in reversed(pieces):
        written = json.dumps(piece["value"])
        text = text.replace(written, "null")
    return text.encode()


def copy_kept(data: bytes) -> tuple[bytes, Any]:
    return put_in(data)[0], data


@pytest.mark.parametrize(
    ("install", "uninstall"),
    [
        (reserialised, back_to_the_copy),
        (put_in, whole_members),
        (put_in, without_the_comma),
        (copy_kept, lambda data, copy: copy),
        (lambda data: (data, []), take_out),
    ],
    ids=[
        "re-serialises",
        "takes whole members",
        "leaves a hole",
        "brings an old copy back",
        "does nothing",
    ],
)
def test_the_check_finds_who_gets_it_wrong(install: Install, uninstall: Uninstall) -> None:
    with pytest.raises(
        (AssertionError, KeyError, ValueError, HypothesisException, BaseExceptionGroup)
    ):
        check(install, uninstall)


# -- what people do in between ---------------------------------------------------------------------


def after(data: str, edit: Callable[[dict[str, Any]], None]) -> Mapping[str, Any]:
    """Install, change the value as a program would that writes the file anew, and uninstall."""
    made, pieces = put_in(data.encode())
    value = json.loads(made)
    edit(value)
    out = take_out(json.dumps(value, indent=2).encode(), pieces)
    assert out is not None
    return dict(json.loads(out))


def test_what_another_version_has_no_longer_goes() -> None:
    data, pieces = put_in(b'{"mine": 1}\n')
    fewer = {name: OURS[name] for name in ("hooks",)}
    later, left = put_in(data, Json("settings.json", fewer, MARK), pieces)
    assert json.loads(later) == {"mine": 1, **fewer}
    assert take_out(later, left) == b'{"mine": 1}\n'


def test_a_hook_added_beside_ours_stays() -> None:
    mine = {"hooks": [{"type": "command", "command": "mine"}]}
    left = after("{}", lambda value: value["hooks"]["Stop"].append(mine))
    assert left == {"hooks": {"Stop": [mine]}}


def test_a_hook_added_into_our_group_stays() -> None:
    mine = {"type": "command", "command": "mine"}
    left = after("{}", lambda value: value["hooks"]["Stop"][0]["hooks"].append(mine))
    assert left == {"hooks": {"Stop": [{"matcher": "*", "hooks": [mine]}]}}


def test_ours_goes_though_somebody_edited_it() -> None:
    def edit(value: dict[str, Any]) -> None:
        value["hooks"]["Stop"][0]["hooks"][0]["timeout"] = 60
        value["mcpServers"]["synapse"]["env"] = {"A": "b"}

    assert after('{"model": "x"}', edit) == {"model": "x"}


def test_a_server_added_beside_ours_stays() -> None:
    left = after("{}", lambda value: value["mcpServers"].update(other={"command": "o"}))
    assert left == {"mcpServers": {"other": {"command": "o"}}}


def test_what_somebody_took_out_already_is_no_fault() -> None:
    assert after('{"model": "x"}', lambda value: value.pop("hooks")) == {"model": "x"}


def test_without_a_record_ours_is_known_by_its_mark() -> None:
    made, _ = put_in(b'{"a": 1}\n')
    again, pieces = put_in(made, CHANGE, [])
    assert again.count(b"bin/mcp") == 1
    assert take_out(again, pieces) == b'{"a": 1}\n'


def test_a_comment_keeps_its_line() -> None:
    made, _ = put_in(b'{\n  "a": 1 // why\n}\n', Json("f", {"b": MARK}, MARK))
    assert made == b'{\n  "a": 1, // why\n  "b": "' + MARK.encode() + b'"\n}\n'


def test_a_file_is_written_and_goes() -> None:
    made, pieces = put_in(None)
    assert json.loads(made) == OURS
    assert take_out(made, pieces) is None


@pytest.mark.parametrize("data", [b"", b"\n", b" \n\n", "\ufeff\n".encode()])
def test_an_empty_file_comes_back(data: bytes) -> None:
    made, pieces = put_in(data)
    assert has_ours(made)
    assert take_out(made, pieces) == data


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b'{\n  "a": \n}', "settings.json:3: a value is missing"),
        (b'{"a": 1 "b": 2}', "settings.json:1: a comma is missing"),
        (b'{"a": 1', "settings.json:1: the object does not end"),
        (b"[1]", "settings.json:1: the file holds no object"),
        (b'{"a": \xff}', "settings.json:1: this is not UTF-8"),
        (b'{}\n{"b": 1}', "settings.json:2: more text after the end"),
        (b'{"a": "b\n"}', "settings.json:1: a string that does not end in its line"),
        (b'{"hooks": []}', "settings.json:1: hooks is [], and it has to be"),
        (b'{"hooks": {"Stop": {}}}', "settings.json:1: hooks.Stop is {}"),
        (b'{"hooks": {},\n "hooks": {}}', "hooks stands there twice"),
        (b"[" * 5000, "more than 200 levels"),
    ],
)
def test_what_cannot_be_merged_is_refused_with_its_line(data: bytes, problem: str) -> None:
    with pytest.raises(Conflict) as error:
        put_in(data)
    assert problem in str(error.value)


def test_json5_is_read() -> None:
    data = b"{\n  // mine\n  plugins: {entries: {'a': {on: true,},},},\n  n: +.5,\n}\n"
    made, pieces = put_in(data)
    assert has_ours(made)
    assert take_out(made, pieces) == data


# -- blocks ----------------------------------------------------------------------------------------

TABLES = '[mcp_servers.synapse]\ncommand = "/w/bin/mcp"\n\n[[hooks.Stop]]\nmatcher = "*"\n'
TOML = Block("config.toml", TABLES)
TOMLS = [
    "",
    'model = "x"',
    'model = "x"\n',
    "a = 1\r\n[b]\r\nc = 2\r\n",
    "[[hooks.Stop]]\nmatcher = 'mine'\n",
    "\n\n",
]


@pytest.mark.parametrize("text", TOMLS)
def test_a_block_goes_to_the_byte(text: str) -> None:
    made, pieces = put_in(text.encode(), TOML)
    assert b"mcp_servers" in made
    assert put_in(made, TOML, pieces)[0] == made
    assert take_out(made, pieces) == text.encode()


@pytest.mark.parametrize("text", TOMLS)
def test_what_was_added_around_a_block_stays(text: str) -> None:
    made, pieces = put_in(text.encode(), TOML)
    out = take_out(b"# first\n" + made + b"[last]\nx = 1\n", pieces)
    end = "" if text.endswith("\n") or not text else "\n"
    assert (out or b"").replace(b"\r\n", b"\n") == f"# first\n{text}{end}[last]\nx = 1\n".replace(
        "\r\n", "\n"
    ).encode()


def test_tables_that_a_client_wrote_into_the_block_stay() -> None:
    made, pieces = put_in(b'model = "x"\n', TOML)
    text = made.decode()
    mine = '[projects."/p"]\ntrust_level = "trusted"\n\n'
    text = text.replace("# synapse:end\n", f"\n{mine}# synapse:end\n")
    out = take_out(text.encode(), pieces)
    assert out is not None
    assert mine.strip() in out.decode()
    assert b"synapse" not in out


CODEX = """\
model = "x" # mine

[projects."/p"]
trust_level = "trusted"
"""
ADDED = '[mcp_servers.other]\ncommand = "echo"\nargs = ["hi"]\n'


def test_a_block_that_codex_wrote_anew_goes() -> None:
    """Codex 0.169.0 loses the first marked line when it adds a server, and puts that before the
    last.
    """
    change = Block("config.toml", '[mcp_servers.synapse]\ncommand = "/w/bin/mcp"\n')
    made, pieces = put_in(CODEX.encode(), change)
    first = made.decode().index("# synapse:begin")
    text = made.decode()[:first] + f"{change.text}\n{ADDED}# synapse:end\n"
    assert put_in(text.encode(), change, pieces)[0].decode() == text
    assert take_out(text.encode(), pieces) == f"{CODEX}\n{ADDED}".encode()
    newer, more = put_in(
        text.encode(), Block("config.toml", change.text.replace("/w", "/v")), pieces
    )
    assert (newer.count(b"mcp_servers.synapse"), newer.count(b"synapse:begin")) == (1, 1)
    assert take_out(newer, more) == f"{CODEX}\n{ADDED}".encode()


def test_a_list_of_tables_of_the_users_stays_when_the_marks_are_gone() -> None:
    mine = "[[hooks.Stop]]\nmatcher = 'mine'\n"
    made, pieces = put_in(mine.encode(), TOML)
    text = "".join(
        line for line in made.decode().splitlines(keepends=True) if "# synapse" not in line
    )
    assert take_out(text.encode(), pieces) == mine.encode()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "[mcp_servers.synapse]\ncommand = 'x'\n",
            "config.toml:1: [mcp_servers.synapse] stands there already",
        ),
        ("a = 1\nhooks = {}\n", "config.toml:2: hooks stands there already"),
        ("a = \n", "config.toml:1: this is no TOML"),
    ],
)
def test_what_a_block_cannot_stand_beside_is_named(text: str, problem: str) -> None:
    with pytest.raises(Conflict) as error:
        merge("config.toml", text.encode(), [TOML], [])
    assert problem in str(error.value)


def test_a_block_is_replaced_where_it_stands() -> None:
    first = Block("AGENTS.md", "one", "markdown")
    made, pieces = put_in(b"# Mine\n", first)
    made += b"\nmore\n"
    newer, more = put_in(made, Block("AGENTS.md", "two", "markdown"), pieces)
    assert b"two" in newer
    assert newer.endswith(b"-->\n\nmore\n")
    assert b"one" not in newer
    assert take_out(newer, more) == b"# Mine\n\nmore\n"


def test_a_file_of_ours_goes_whole() -> None:
    made, pieces = put_in(None, File("x", "text\n"))
    assert (made, take_out(made, pieces)) == (b"text\n", None)
