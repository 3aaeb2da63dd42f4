"""How a change is told in few words: which names it took away, and how it begins."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.files.diff import LENGTH, LINES, NAMES, compare, of_edit


@pytest.mark.parametrize(
    ("old", "new", "gone", "renamed"),
    [
        ("def fetch_all(conn):", "def fetch_page(conn, page):", "fetch_all", "fetch_page"),
        ("    async def run(self):", "    async def go(self):", "run", "go"),
        ("class Cart:", "class Basket(Base):", "Cart", "Basket"),
        (
            "export const getUsers = () => {",
            "export const listUsers = () => {",
            "getUsers",
            "listUsers",
        ),
        ("  fetchAll(query) {", "  fetchPage(query) {", "fetchAll", "fetchPage"),
        ("func (r *Repo) All() error {", "func (r *Repo) Page() error {", "All", "Page"),
        ("pub fn open_file(", "pub fn open_at(", "open_file", "open_at"),
        ("public static int addUp(int a) {", "public static int sum(int a) {", "addUp", "sum"),
        ("  retry_limit: 5", "  max_retries: 5", "retry_limit", "max_retries"),
        ("LIMIT = 10", "MOST = 10", "LIMIT", "MOST"),
        ("def old_way():\n    pass", "", "old_way", None),
        # used, not declared: it may well stand elsewhere
        ("x = load_all(3)", "x = 3", None, None),
        ("    value = 1", "    other = 1", None, None),
        ("    if (done(x)) {", "    while (x) {", None, None),
        ("# the old way", "# the new way", None, None),
        ("def f(a):", "def f(a, b):", None, None),
    ],
)
def test_a_declared_name_that_went_is_gone_and_one_in_its_place_is_its_new_one(
    old, new, gone, renamed
):
    diff = compare(old, new, new)
    assert diff.removed == ((gone,) if gone else ())
    assert diff.renamed == (((gone, renamed),) if renamed else ())


@pytest.mark.parametrize("all", [False, True])
def test_a_part_of_a_line_is_told_by_the_line(all):
    text = "import x\n\ndef fetch_all(conn):\n    pass\n" + "fetch_all(1)\n" * all
    diff = of_edit(text, "fetch_all", "fetch_page")
    assert diff.head == "- def fetch_all(conn):\n+ def fetch_page(conn):"
    assert diff.renamed == (("fetch_all", "fetch_page"),)


def test_what_does_not_stand_in_the_text_is_told_by_itself():
    assert of_edit("a\n", "def f_one():", "def f_two():").renamed == (("f_one", "f_two"),)
    assert of_edit("a\n", "", "b").head == "+ b"
    assert of_edit("a\n", None, "b\n").head == "- a\n+ b"


def test_no_secret_is_in_the_account_not_even_a_part_of_one():
    key = "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n" * 9
    key += "-----END PRIVATE KEY-----\n"
    assert "MIIE" not in of_edit("x\n", "x\n", key).head


def test_a_name_that_stands_elsewhere_in_the_file_is_not_gone():
    assert compare("def load():", "", "# load stays in the table").removed == ()


def test_a_change_is_told_by_its_first_lines():
    old = "".join(f"line {n}\n" for n in range(2_000))
    new = old.replace("line 700\n", "other 700\n")
    assert compare(old, new, new).head == "- line 700\n+ other 700"
    assert compare("", "a\nb\nc\n", "").head == "+ a\n+ b"
    assert compare("same", "same", "same") == ("", (), ())


@given(st.text(max_size=400), st.text(max_size=400))
def test_whatever_changes_the_account_is_short(old, new):
    diff = compare(old, new, new)
    lines = diff.head.split("\n")
    assert len(lines) <= 2 * LINES
    assert all(len(line) <= LENGTH + 1 for line in lines)
    assert len(diff.removed) <= NAMES
    assert {name for name, _ in diff.renamed} <= set(diff.removed)
