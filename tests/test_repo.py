"""What is committed: nothing of one machine, nothing unfinished, and a lock that pins
everything.
"""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]

# Written so that this file does not match itself.
REGISTRY = (
    r"\b(?:test\.)?pypi\.org|python[h]osted\.org|registry\.npmjs|(?:deb|security)\.debian\.org"
)
MACHINE = r"(?<![\w.~-])/(?:work|root|home|Users|opt)/"
UNFINISHED = r"\b(?:NotImplemented[E]rror|TOD[O]|FIXM[E]|XX[X])\b"


def committed():
    """Files that git holds or would take."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    paths = {ROOT / name for name in done.stdout.decode().split("\0") if name}
    return sorted(path for path in paths if path.is_file())


LOCKS = ("requirements.lock", "requirements-run.lock")


def pins(lock="requirements.lock"):
    """Name, version, marker and hashes of each requirement of a lock."""
    text = (ROOT / lock).read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            requirement, *hashes = line.split(" --hash=")
            yield Requirement(requirement.strip()), [value.strip() for value in hashes]


@pytest.mark.parametrize(
    "pattern", [REGISTRY, MACHINE, UNFINISHED], ids=("registry", "machine", "unfinished")
)
def test_no_committed_file_has(pattern):
    hits = []
    for path in committed():
        if path.suffix == ".png":
            continue  # whose bytes may spell anything
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        hits += [
            f"{path.relative_to(ROOT)}:{number}: {line[:90]}"
            for number, line in enumerate(lines, 1)
            if re.search(pattern, line)
        ]
    assert hits == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (REGISTRY, "--index-url https://" + "pypi" + ".org/simple"),
        (MACHINE, "file://" + "/opt" + "/wheels"),
        (MACHINE, "cd " + "/home" + "/me"),
        (UNFINISHED, "# " + "TO" + "DO: later"),
        (UNFINISHED, "raise NotImplemented" + "Error"),
    ],
)
def test_the_patterns_catch(pattern, text):
    assert re.search(pattern, text)


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_pins_everything_by_hash_and_names_no_place(lock):
    found = list(pins(lock))
    assert found
    for requirement, hashes in found:
        assert re.fullmatch(r"==[\w.!+-]+", str(requirement.specifier)), requirement
        assert hashes, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", value) for value in hashes), requirement
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert not re.search(r"://|file:|\s@\s|^\s*(?:-[ief]|--(?!hash=))", text, re.MULTILINE)


def asked_for(project, lock):
    """What a lock has to hold: for developers all groups, to run what a team and the server need,
    and the builder.
    """
    groups = {
        name: [item for item in items if isinstance(item, str)]
        for name, items in project["dependency-groups"].items()
    }
    extras = project["project"]["optional-dependencies"]
    shown = [*extras["team"], *extras["server"]]
    tried = ("client", "mcp", "crypto", "postgres", "semantic")
    more = {
        "requirements.lock": [
            *groups["dev"],
            *shown,
            *(line for extra in tried for line in extras[extra]),
        ],
        "requirements-run.lock": shown,
    }
    return [
        *project["project"]["dependencies"],
        *project["build-system"]["requires"],
        *groups["build"],
        *more[lock],
    ]


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_satisfies_what_is_asked_for(lock):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    locked = {
        canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin, _ in pins(lock)
    }
    for requirement in map(Requirement, asked_for(project, lock)):
        assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)]), (
            requirement
        )


def test_what_runs_is_a_small_part_of_what_developers_have():
    """By the same pins, so that what is tested is what runs."""
    run, all_of_them = ({str(pin): hashes for pin, hashes in pins(lock)} for lock in LOCKS[::-1])
    assert {pin: all_of_them.get(pin) for pin in run} == run
    assert 2 * len(run) < len(all_of_them)
    tools = {"pytest", "ruff", "mypy", "mkdocs", "playwright", "langgraph-checkpoint"}
    assert not tools & {canonicalize_name(pin.name) for pin, _ in pins(LOCKS[1])}


def test_the_page_of_frameworks_has_what_is_tried():
    from bench import matrix

    page = (ROOT / "docs/how-to/install.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z].*\d) \| yes \| (\w+).*? \| (\w+).*? \|$", page, re.M)
    found = {
        tuple(name.split()): (team == "yes", mcp == "yes")
        for names, team, mcp in rows
        for name in names.split(", ")
    }
    assert found == {
        (name, version): tuple((name, extra) not in matrix.APART for extra in ("team", "mcp"))
        for name, version in matrix.FRAMEWORKS.items()
    }
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    rows = set(re.findall(r"^\| `([\w-]+)` \|", page, re.M))
    assert rows == set(extras["optional-dependencies"])


def test_the_pages_say_how_many_packages_there_are():
    run, every = (len(list(pins(lock))) for lock in LOCKS[::-1])
    readme, contributing = (
        (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "CONTRIBUTING.md")
    )
    assert f"{run} packages, a minute" in readme
    assert f"First time: {every} packages" in readme
    assert f"installs {run} packages" in contributing
    assert f"the {every} packages" in contributing


def test_make_run_installs_what_runs_and_make_test_the_rest(tmp_path):
    for name in ("Makefile", "pyproject.toml", *LOCKS):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())

    def locks_for(target):
        planned = subprocess.run(
            ["make", "-n", target], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout
        return re.findall(r"install .*--require-hashes -r (\S+)", planned)

    assert locks_for("run") == ["requirements-run.lock"]
    assert locks_for("test") == ["requirements-run.lock", "requirements.lock"]


def test_changelog_begins_with_the_version_of_the_package():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    with open(ROOT / "pyproject.toml", "rb") as file:
        version = tomllib.load(file)["project"]["version"]
    headings = re.findall(r"^## \[(.+)\] - \d{4}-\d\d-\d\d$", text, re.MULTILINE)
    assert headings[0] == version


def test_every_version_is_told_in_forty_lines():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        assert len(section.splitlines()) <= 40, section[:40]


def test_changes_are_short_and_of_a_kind():
    for path in (ROOT / "changes").iterdir():
        if path.name in {"README.md", ".gitignore"}:
            continue
        assert re.fullmatch(r"\+[a-z0-9-]+\.(added|changed|fixed|security)\.md", path.name), (
            path.name
        )
        assert len(path.read_text(encoding="utf-8").strip()) <= 300, path.name


CONTACT = re.compile(
    r"^Contact: (not set|https://(?!\S*example)\S+|[\w.+-]+@(?!\S*(?:example|test|invalid))[\w.-]+\.\w+)$",
    re.MULTILINE,
)


def misleading(text):
    """Return what is wrong with how a hole is to be reported: an address that is none, or a promise
    of a private channel that is not there.
    """
    section = text.partition("## Reporting a hole")[2].partition("\n## ")[0]
    contact = CONTACT.search(section)
    if contact is None:
        return "no contact, or one that is made up"
    if contact[1] == "not set" and ("no private channel" not in section or "@" in section):
        return "it reads as if there were a channel"
    return ""


def test_a_report_goes_to_a_real_place_or_the_page_says_that_there_is_none():
    text = (ROOT / "synapse/SECURITY.md").read_text(encoding="utf-8")
    assert misleading(text) == ""
    for wrong in ("security@example.com", "https://example.org/report", "soon"):
        assert misleading(text.replace("Contact: not set", f"Contact: {wrong}"))
    assert misleading(text.replace("no private channel", "a channel"))
