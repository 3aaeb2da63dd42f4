"""What `make check` runs for a change."""

import pytest

from bench.affected import ROOT, affected, changed
from tests.pages import PAGES, blocks, name_of, read

FILES = {
    "synapse/log/files.py": "",
    "synapse/core.py": "",
    "tests/synapse/log/test_line.py": "import synapse.log.line",
    "tests/synapse/test_core.py": "import synapse",
    "tests/synapse/test_store.py": "from synapse.log import files",
    "tests/synapse/cli/conftest.py": "",
    "tests/synapse/cli/test_words.py": "from synapse.cli import main",
    "tests/crash/test_disk.py": "import synapse.log.files",
    "tests/histories/test_seeds.py": "import synapse.log.files",
    "tests/test_other.py": "import synapse",
    "tests/test_site.py": "import docs",
    "docs/plain.md": "# Plain",
    "docs/code.md": "# Code\n\n```python\nprint(1)\n```\n",
}


@pytest.fixture
def tree(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        (
            "synapse/log/files.py",
            ["tests/synapse/log/test_line.py", "tests/synapse/test_store.py"],
        ),
        ("synapse/core.py", ["tests/synapse/test_core.py"]),
        (
            "synapse/seat.py",
            ["tests/synapse/test_core.py", "tests/synapse/test_store.py"],
        ),
        ("tests/crash/test_disk.py", ["tests/crash/test_disk.py"]),
        ("tests/synapse/cli/conftest.py", ["tests/synapse/cli/test_words.py"]),
        ("tests/synapse/test_gone.py", []),
        ("CONTRIBUTING.md", []),
        ("docs/plain.md", ["tests/test_site.py"]),
        ("docs/gone.md", ["tests/test_site.py"]),
        (
            "docs/code.md",
            [
                "tests/test_docs.py::test_code_runs_and_prints_what_is_shown[docs/code.md]",
                "tests/test_site.py",
            ],
        ),
    ],
)
def test_a_change_names_its_tests(tree, path, tests):
    assert affected([path], tree) == sorted(tests)


def test_every_module_of_the_log_has_tests_that_it_names():
    for path in (ROOT / "synapse" / "log").glob("*.py"):
        assert affected([path.relative_to(ROOT).as_posix()])


def test_the_test_of_a_page_is_there():
    paths = [page.relative_to(ROOT).as_posix() for page in PAGES]
    named = {test.partition("[")[2] for test in affected(paths) if "[" in test}
    assert named == {f"{name_of(page)}]" for page in PAGES if blocks(read(page))}


def test_what_changed_is_asked_of_git(tmp_path):
    assert changed(tmp_path) == []
    assert all(not path.startswith("/") for path in changed())
