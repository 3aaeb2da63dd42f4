"""What others wrote into a file stays as it is to the byte, whatever it looks like: when the block
comes, when it changes, when the file changes around it, and when it goes."""

import os
import stat

import pytest

from orchestrator.plugin.install import installer
from orchestrator.plugin.install.place import AGENTS_MD, place

BEGIN, END = b"<!-- synapse-sync:begin", b"<!-- synapse-sync:end -->"
TEXT = "# Shop\n\nBe kind.\n"
VARIANTS = {
    "absent": None,
    "empty": b"",
    "one newline": b"\n",
    "blank": b" \n\t\n",
    "plain": TEXT.encode(),
    "no newline at the end": b"# Shop\n\nBe kind.",
    "many newlines at the end": b"# Shop\n\n\n\n",
    "CRLF": TEXT.replace("\n", "\r\n").encode(),
    "CRLF, no newline at the end": b"# Shop\r\n\r\nBe kind.",
    "mixed ends of lines": b"# Shop\r\n\nBe\rkind.\n",
    "BOM": b"\xef\xbb\xbf# Shop\n",
    "BOM alone": b"\xef\xbb\xbf",
    "BOM and CRLF": b"\xef\xbb\xbf# Shop\r\n",
    "tabs and trailing blanks": b"\t- a  \n\t\t- b\t\n",
    "NUL": b"a\0b\n",
    "marks in a line": b"See `<!-- synapse-sync:begin` and <!-- synapse-sync:end -->.\n",
    "marks in a code block": b"    <!-- synapse-sync:begin -->\n    <!-- synapse-sync:end -->\n",
    "an open code block": b"```\nnever closed\n",
    "an open comment": b"<!-- never closed\n",
    "front matter": b"---\nname: shop\n---\n# Shop\n",
    "separators of Unicode": "a\u2028b\u2029c\x85d\n".encode(),
    "form feed": b"a\x0cb\x0b\n",
    "emoji and umlauts": "Grüße 🙂\n".encode(),
    "a long line": b"x" * 100_000,
}


@pytest.mark.parametrize("name", ["AGENTS.md", "GEMINI.md"])
@pytest.mark.parametrize("before", VARIANTS.values(), ids=VARIANTS)
def test_every_byte_of_theirs_stays(project, before, name):
    if before is not None:
        os.chmod(project.put(name, before), 0o640)
    project.write("Use PostgreSQL.")
    project.sync(name)
    written = project.read(name)
    assert written.startswith(before or b"")
    assert written.count(BEGIN) - (before or b"").count(BEGIN) == 1
    project.write("Port 5433.", priority="critical")
    project.sync()
    again = project.read(name)
    assert b"Port 5433." in again
    assert again.startswith(before or b"")
    assert again.index(BEGIN, len(before or b"")) == written.index(BEGIN, len(before or b""))
    if before is not None:
        assert stat.S_IMODE((project.folder / name).stat().st_mode) == 0o640
    project.undo()
    assert project.read(name) == before


@pytest.mark.parametrize("before", VARIANTS.values(), ids=VARIANTS)
def test_what_is_written_around_the_block_stays(project, before):
    project.write("Use PostgreSQL.")
    project.put("AGENTS.md", before or b"")
    project.sync()
    eol = b"\r\n" if b"\r\n" in (before or b"") else b"\n"
    first, last = b"# New" + eol, b"- below" + eol
    bom = b"\xef\xbb\xbf"
    text = project.read("AGENTS.md")
    at = len(bom) if text.startswith(bom) else 0
    project.put("AGENTS.md", text[:at] + first + text[at:] + last)
    project.write("Port 5433.")
    project.sync()
    assert b"Port 5433." in project.read("AGENTS.md")
    project.undo()
    result, own = project.read("AGENTS.md"), (before or b"")[at:]
    assert result.startswith(text[:at] + first + own)
    assert result.endswith(last)
    # a line that had no end gets one where another comes to stand below it
    assert result[len(text[:at] + first + own) : -len(last)] in (b"", eol, b"\n")


@pytest.mark.parametrize("before", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("order", ["install first", "sync first"])
@pytest.mark.parametrize("out", ["install first", "sync first"])
def test_beside_the_block_of_an_installation(project, before, order, out):
    if before is not None:
        project.put("AGENTS.md", before)
    location = place(AGENTS_MD, str(project.folder), None, False, dict(os.environ))
    steps = [lambda: installer.install(location), lambda: project.sync("AGENTS.md")]
    for step in steps if order == "install first" else steps[::-1]:
        step()
    assert project.read("AGENTS.md").startswith(before or b"")
    removal = [lambda: installer.uninstall(location), project.undo]
    for step in removal if out == "install first" else removal[::-1]:
        step()
    assert project.read("AGENTS.md") == before


def test_a_block_that_is_left_alone_goes_on_and_goes(project):
    location = place(AGENTS_MD, str(project.folder), None, False, dict(os.environ))
    installer.install(location)
    project.sync()
    installer.uninstall(location)
    project.write("Use PostgreSQL.")
    project.sync()
    assert project.read("AGENTS.md").startswith(BEGIN)
    assert b"Use PostgreSQL." in project.read("AGENTS.md")
    installer.install(location)
    project.undo()
    installer.uninstall(location)
    assert project.read("AGENTS.md") is None


def test_a_folder_that_was_made_for_a_file_goes_with_it(project):
    project.sync(".github/copilot-instructions.md")
    assert project.read(".github/copilot-instructions.md").startswith(BEGIN)
    project.undo()
    assert not (project.folder / ".github").exists()


def test_a_file_that_is_not_utf_8_is_left_alone_and_named(project):
    before = "Grüße\n".encode("latin-1")
    project.put("CLAUDE.md", before)
    done = project.sync()
    assert project.read("CLAUDE.md") == before
    assert any("CLAUDE.md: it is not UTF-8" in note for note in done.notes)
    assert project.read("AGENTS.md").startswith(BEGIN)


def test_half_a_block_is_refused_with_its_line(project):
    project.put("AGENTS.md", TEXT)
    project.sync()
    harmed = project.read("AGENTS.md").replace(END, b"")
    project.put("AGENTS.md", harmed)
    with pytest.raises(Exception, match=r"AGENTS\.md:5"):
        project.sync()
    assert project.read("AGENTS.md") == harmed


def test_a_dry_run_writes_nothing(project):
    project.put("CLAUDE.md", TEXT)
    before, records = project.files(), project.records()
    done = project.sync(dry_run=True)
    assert [edit.path for edit in done.prepared.edits if edit.changes]
    assert len(done.planned.new) == 1
    assert (project.files(), project.records()) == (before, records)
    assert not (project.root / "runs" / ".plugins" / "sync.json").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes what is read-only")
def test_what_may_not_be_written_is_refused_before_anything_is(project):
    os.chmod(project.put("CLAUDE.md", TEXT), 0o444)
    os.chmod(project.folder, 0o555)
    with pytest.raises(Exception, match="no right"):
        project.sync()
    os.chmod(project.folder, 0o755)
    assert project.staged() == []
