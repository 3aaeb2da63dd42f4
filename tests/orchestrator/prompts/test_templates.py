"""Templates: the workspace's own before the package's, in a sandbox, with errors that say where."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.prompts.templates import MAX_BYTES, BrokenTemplate, Templates
from synapse.model.agents import ROLES

ROOT = Path(__file__).parents[3]


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "prompts").mkdir()

    def write(name, text):
        path = tmp_path / "prompts" / f"{name}.md.j2"
        path.write_text(text, encoding="utf-8")
        return path

    write.templates = Templates(str(tmp_path))
    return write


def test_every_role_has_its_template():
    templates = Templates()
    names = {
        *ROLES,
        "qa",
        "memory",
        "task",
        "wake",
        "unread",
        "results",
        "shell",
        "_memory",
        "_task",
        "_rules",
    }
    assert [name for name in sorted(names) if not templates.has(name)] == []
    assert not templates.has("nobody")


def test_a_workspace_overrides_a_template_and_a_part(workspace):
    before = workspace.templates.version
    workspace("cto", 'Own. {% include "_rules.md.j2" %}')
    workspace("_rules", "Ours: {{ agent }}.")
    assert workspace.templates.render("cto", {"agent": "x"}) == "Own. Ours: x."
    assert workspace.templates.version != before
    (Path(workspace.templates.folder) / "cto.md.j2").unlink()
    assert "Own." not in workspace.templates.render("_rules", {"agent": "y"})


def test_an_edit_is_noticed_and_an_unchanged_folder_is_read_once(workspace):
    path = workspace("own", "one")
    assert workspace.templates.render("own", {}) == "one"
    sources = workspace.templates._sources
    assert workspace.templates.render("own", {}) == "one"
    assert workspace.templates._sources is sources
    path.write_text("three", encoding="utf-8")
    assert workspace.templates.render("own", {}) == "three"


def test_versions_are_of_the_texts_alone(tmp_path):
    assert Templates().version == Templates(str(tmp_path)).version


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("one\n{% if %}\n", 2, "Expected an expression"),
        ("one\ntwo\n{{ nothing }}\n", 3, "'nothing' is undefined"),
        ("{{ agent.nothing }}", 1, "has no attribute 'nothing'"),
        ("\n{{ agent.__class__ }}", 2, "unsafe"),
        ("\n{{ ''.__class__.__mro__ }}", 2, "unsafe"),
        ("\n\n{{ 1 / 0 }}", 3, "division by zero"),
        ("\n{% include '../secrets' %}", 2, "../secrets"),
        ("\n{% include 'nowhere.md.j2' %}", 2, "nowhere.md.j2"),
        ("{{ range(3) }}", 1, "'range' is undefined"),
        ("\n{{ values.append(1) }}", 2, "unsafe"),
        ("{% include 'own.md.j2' %}", 1, "recursion"),
    ],
)
def test_a_broken_override_says_file_and_line(workspace, text, line, what):
    path = workspace("own", text)
    with pytest.raises(BrokenTemplate) as caught:
        workspace.templates.render("own", {"agent": "x", "values": []})
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert what in str(caught.value)
    assert (caught.value.file, caught.value.line) == (str(path), line)


def test_an_error_in_a_part_names_the_part(workspace):
    workspace("own", "one\n{% include 'part.md.j2' %}")
    path = workspace("part", "\n\n\n{{ gone }}")
    with pytest.raises(BrokenTemplate, match="line 4: 'gone' is undefined") as caught:
        workspace.templates.render("own", {})
    assert caught.value.file == str(path)


def test_values_are_never_rendered(workspace):
    workspace("own", "{{ text }}")
    for text in ("{{ 7 * 7 }}", "{% raw %}", "{# gone #}", "{{ text }}", "<b>&amp;</b>\n"):
        assert workspace.templates.render("own", {"text": text}) == text


def test_only_a_regular_file_of_somebody_trusted_is_a_template(workspace, tmp_path):
    path = workspace("own", "x")
    path.chmod(0o666)
    with pytest.raises(BrokenTemplate, match=r"everybody may write it; use chmod o-w"):
        workspace.templates.has("own")
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BrokenTemplate, match="cannot be read"):
        workspace.templates.has("own")
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(BrokenTemplate, match="regular file"):
        workspace.templates.has("own")
    path.unlink()
    path.write_bytes(b"\xff")
    with pytest.raises(BrokenTemplate, match="utf-8"):
        workspace.templates.has("own")
    path.write_bytes(b"x" * (MAX_BYTES + 1))
    with pytest.raises(BrokenTemplate, match=f"at most {MAX_BYTES} bytes"):
        workspace.templates.has("own")


def test_other_files_of_the_folder_are_left_alone(workspace):
    folder = Path(workspace.templates.folder)
    for name in ("README.md", "Own.md.j2", ".hidden.md.j2", "own.md.j2~"):
        (folder / name).write_bytes(b"\xff{{")
    assert workspace.templates.version == Templates().version


def made_from_strings(text):
    """The places of a module that make a template from a string, or get hold of Jinja."""
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case (
                ast.Attribute(attr="from_string")
                | ast.Name(id="Template")
                | ast.Attribute(attr="Template")
            ):
                found.append(node.lineno)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] == "jinja2":
                found.append(node.lineno)
            case ast.Import(names=names) if any(
                name.name.split(".")[0] == "jinja2" for name in names
            ):
                found.append(node.lineno)
    return found


def test_no_text_becomes_a_template_anywhere():
    naive = "import jinja2\nenv.from_string(x)\nTemplate(x)\nfrom jinja2 import Template"
    assert sorted(made_from_strings(naive)) == [1, 2, 3, 4]
    paths = [
        path
        for package in ("synapse", "orchestrator", "scenarios")
        for path in (ROOT / package).rglob("*.py")
    ]
    words = ("jinja2", "from_string", "Template")
    found = set()
    for path in paths:
        text = path.read_text(encoding="utf-8")
        if any(word in text for word in words) and made_from_strings(text):
            found.add(path.name)
    assert found == {"sandbox.py", "frame.py"}
    for place in ("orchestrator/prompts/sandbox.py", "synapse/server/pages/frame.py"):
        source = (ROOT / place).read_text(encoding="utf-8")
        assert "from_string" not in source
        assert "Template(" not in source.replace("BrokenTemplate(", "")


def test_jinja_is_loaded_at_the_first_render():
    code = (
        "import sys, orchestrator.prompts.render, orchestrator.prompts.templates as t;"
        " t.Templates(); print('jinja2' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT
    )
    assert done.stdout == "False\n", done.stderr
