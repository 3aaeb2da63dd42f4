"""Names and sentences keep to the field's words: the glossary of CONTRIBUTING.md, held against the code."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("synapse", "orchestrator", "scenarios")
MODULES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "synapse").glob("*.md")),
    *sorted((ROOT / "orchestrator").glob("*.md")),
]

# Pronouns, participles and adverbs that say nothing of the value that they name.
VAGUE = set(
    "found told asked made held known given said kept seen named wanted taken shown left put"
    " begun met gone standing lived heard about each place things more what these some others"
    " due there here way where whom word words part parts whole rest other again behind beside"
    " above below over out".split()
)
NO_VERB = re.compile(
    r"(What|Who|Whom|Whose|Whether|How|Where|Why|Which|Of|By|As|Nobody|All|Those|That|It|Its|Be"
    r"|Their|Have|Begin|The|A|An|One|Every|Each|Everything|Somebody|From|In|When|No|There|This)\b"
)
OLDER = {"Seat", "seat"}  # names that programs of users may have
# names that are keys of files or of output, parameters and tests that users may name
KEPT = {
    "orchestrator/nightly/job.py": {"told"},
    "orchestrator/plugin/sessions/state.py": {"told"},
    "orchestrator/testing/contract.py": {"test_what_does_not_pass_is_told"},
    "synapse/consolidate/__init__.py": {"night"},
    "synapse/consolidate/apply.py": {"night"},
}
SHARE = 0.02  # of the assigned names
NO_VERBS = 0.005  # of the docstrings of functions
# plain English in a sentence, though not as names
PLAIN = {"told", "night", "nights", "books", "pen", "furniture", "boss"}
RIDDLES = ("whose act is this", "by nobody", "nobody's word", "the bell rings", "rings the bell")


def avoided(text):
    """Return the words that the glossary replaces, from its table `instead of`."""
    section = text.partition("\n## Glossary\n")[2]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", section.partition("| we write |")[2], re.M)
    return {
        word.strip(" `"): ours.strip(" `")
        for ours, words in rows
        if not set(ours) <= set("-")
        for word in words.split(",")
    }


def identifiers(tree):
    """Yield the names that a module defines or assigns."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def prose(text):
    """Return the sentences of a page: without its glossary, its blocks and its code."""
    text = text.partition("\n## Glossary\n")[0]
    return re.sub(r"`[^`]*`", "", re.sub(r"```.*?```", "", text, flags=re.S))


def documented(source):
    """Return the docstrings of a module, without the code in them."""
    nodes = [ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef]
    return "\n".join(
        prose(ast.get_docstring(node) or "")
        for node in ast.walk(ast.parse(source))
        if isinstance(node, tuple(nodes))
    )


def avoided_in(text, words):
    """Return the words of a text which the glossary replaces."""
    return sorted(set(re.findall(r"\w+", text.lower())) & (set(words) - PLAIN))


def parts(name):
    return [part.lower() for part in re.findall(r"[A-Z]?[a-z]+", name)]


def misnamed(source, words, kept=()):
    """Return the identifiers of a module that use a word which the glossary replaces."""
    names = set(identifiers(ast.parse(source))) - OLDER - set(kept)
    return sorted(name for name in names if set(parts(name)) & set(words))


def vague(sources):
    """Return the share of assigned names that are vague."""
    names = Counter(
        node.id
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
    return sum(names[name] for name in VAGUE) / sum(names.values())


def without_verb(sources):
    """Return the share of functions' docstrings that open with no verb."""
    openings = [
        NO_VERB.match(text) is not None
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (text := ast.get_docstring(node))
    ]
    return sum(openings) / len(openings)


def sources(package):
    return [
        path.read_text(encoding="utf-8") for path in MODULES if path.is_relative_to(ROOT / package)
    ]


WORDS = avoided((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))


def test_the_glossary_says_what_to_write_instead():
    assert WORDS["bell"] == "notification"
    assert len(WORDS) > 10


def wrong_words(path):
    """Return what of a page or a module does not keep to the glossary, or is a riddle."""
    text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
    if path.suffix == ".md":
        yield from avoided_in(prose(text), WORDS)
    else:
        yield from misnamed(text, WORDS, KEPT.get(name, ()))
        yield from avoided_in(documented(text), WORDS)
    if path.name == "CHANGELOG.md":
        text = prose(text)  # it quotes what was changed
    text = " ".join(text.lower().split())
    yield from (riddle for riddle in RIDDLES if riddle in text)


def place(path, word):
    """Return the file and the first line that has a word, or a riddle in whole."""
    lines = path.read_text(encoding="utf-8").lower().splitlines()
    number = next((at for at, line in enumerate(lines, 1) if word.lower() in line), 1)
    return f"{path.relative_to(ROOT)}:{number}: {word}"


def test_pages_and_modules_keep_to_the_glossary():
    paths = [*PAGES, *MODULES]
    assert [place(path, word) for path in paths for word in wrong_words(path)] == []


def test_a_wrong_word_is_found_in_each_kind_of_file(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    wrong = {
        "page.md": "The heirs act.",
        "name.py": "desk = 1",
        "docstring.py": 'def f():\n    """Ring the bell."""',
        "riddle.py": "# It is nobody's word.",
    }
    for name, text in wrong.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    paths = [tmp_path / name for name in wrong]
    assert [place(path, word) for path in paths for word in wrong_words(path)] == [
        "page.md:1: heirs",
        "name.py:1: desk",
        "docstring.py:2: bell",
        "riddle.py:1: nobody's word",
    ]


@pytest.mark.parametrize("path", KEPT)
def test_names_that_are_kept_are_still_there(path):
    names = set(identifiers(ast.parse((ROOT / path).read_text(encoding="utf-8"))))
    assert KEPT[path] <= names


def test_a_word_of_our_own_is_found():
    assert misnamed("def ring_bell(desk): pass", WORDS) == ["desk", "ring_bell"]
    assert misnamed("told = last_night = 1", WORDS, {"told"}) == ["last_night"]
    assert misnamed("def notify(thread): string = 1", WORDS) == []


def test_a_word_of_our_own_in_a_sentence_is_found():
    assert avoided_in(prose("The bell rings.\n## Glossary\nheirs"), WORDS) == ["bell"]
    assert avoided_in(prose("Set `bell_lost` to 1, or `bell`."), WORDS) == []
    assert avoided_in(documented('def f():\n    """Ring the bell."""'), WORDS) == ["bell"]


@pytest.mark.parametrize("package", PACKAGES)
def test_names_say_what_they_name(package):
    assert vague(sources(package)) <= SHARE


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_open_with_a_verb(package):
    assert without_verb(sources(package)) <= NO_VERBS


def test_vague_names_and_openings_are_found():
    assert vague(["found = 1\nrows = 2"]) == 0.5
    assert (
        without_verb(['def f():\n    """What it is."""', 'def g():\n    """Return it."""']) == 0.5
    )
