"""A long conversation for who joins it: what is kept, what is not, and within which bounds."""

from hypothesis import given
from hypothesis import strategies as st

from synapse.model.condense import Condensed, Shape, Turn, condense, lines, specifics
from tests.examples import examples


def bytes_of(text: str) -> int:
    return len(text.encode())


def talk(*texts: str) -> list[Turn]:
    return [Turn("someone", text) for text in texts]


def test_what_was_said_last_is_whole() -> None:
    said = talk(*(f"message number {at}" for at in range(9)))
    assert condense(said, "", bytes_of, Shape(window=3)).window == tuple(
        each.text for each in said[-3:]
    )


def test_the_newest_mention_of_a_name_is_kept_once() -> None:
    said = talk(
        "We asked Ada Byron first.",
        "nothing new here",
        "Ada Byron said 1,024 is right.",
        "a",
        "b",
        "c",
    )
    found = condense(said, "", bytes_of, Shape(window=3, capsule=0))
    assert found.specifics == ("Ada Byron said 1,024 is right.",)
    assert found.left_out == 2


def test_what_the_reader_holds_already_is_not_repeated() -> None:
    said = talk("Port 8443 is open on Blue Harbor.", "x", "y", "z")
    shape = Shape(window=3, capsule=0)
    assert condense(said, "", bytes_of, shape).specifics
    assert not condense(said, "Is 8443 open on Blue Harbor?", bytes_of, shape).specifics


def test_outputs_are_shortened_and_say_so() -> None:
    output = "\n".join(f"line {at} of the page" for at in range(200))
    found = condense([Turn("browser", output, output=True)], "", bytes_of, Shape(output=400))
    (text,) = found.window
    assert text.startswith("line 0 ")
    assert text.endswith("line 199 of the page")
    assert "lines left out" in text
    assert bytes_of(text) < 500
    (whole,) = condense(talk(output), "", bytes_of, Shape(output=400)).window
    assert whole == output


def test_lines_about_the_matter_come_from_anywhere() -> None:
    page = Turn(
        "browser",
        "weather is fine\nthe turbine hall floods in march\nads and more ads",
        output=True,
    )
    found = condense(
        [page, *talk("a", "b", "c")],
        "why does the turbine hall flood",
        bytes_of,
        Shape(specifics=0),
    )
    assert found.capsule == ("the turbine hall floods in march",)
    assert (
        condense([page, *talk("a", "b", "c")], "lunch", bytes_of, Shape(specifics=0)).capsule == ()
    )


def test_long_lines_are_taken_as_sentences() -> None:
    text = "One sentence here. " * 60
    assert len(lines(text)) > 2
    assert "".join(lines(text)).replace(" ", "") == text.replace(" ", "")


def test_what_is_specific() -> None:
    assert specifics("see https://a.example/x?y=1, Ada Byron, build_42 and 3.141") == {
        "https://a.example/x?y=1",
        "Ada Byron",
        "build_42",
        "3.141",
    }
    assert not specifics("nothing in here at all")


words = st.text(alphabet="ab Z19.\n-", max_size=600)


@examples(150)
@given(
    st.lists(st.tuples(words, st.booleans()), max_size=12),
    words,
    st.integers(0, 200),
    st.integers(0, 200),
)
def test_the_bounds_are_kept_and_nothing_is_made_up(
    texts: list[tuple[str, bool]], matter: str, most: int, capsule: int
) -> None:
    said = [Turn("someone", text, output) for text, output in texts]
    found: Condensed = condense(said, matter, bytes_of, Shape(2, 100, most, capsule))
    assert sum(bytes_of(f"{line}\n") for line in found.specifics) <= most
    assert sum(bytes_of(f"{line}\n") for line in found.capsule) <= capsule
    there = {line for each in said[:-2] for line in lines(each.text)}
    assert there.issuperset((*found.specifics, *found.capsule))
    assert len(found.window) == min(2, len(said))


def test_of_lines_that_weigh_the_same_the_newest_is_kept_whatever_the_order_of_a_set() -> None:
    for number in range(40):
        one, other = ([f"{side}{name}{chr(97 + number % 26)}{'x' * (number // 26)}" for name in "bcdefghk"]
                      for side in ("first", "second"))  # fmt: skip
        rare = [
            f"note {'q' * (at + 1)}{place} {one[at]} {other[at]}"
            for at in range(8)
            for place in range(at + 1)
        ]
        said = talk(*rare, " ".join(one), " ".join(other), "the last")
        found = condense(
            said, " ".join((*one, *other)), bytes_of, Shape(1, 400, 0, len(" ".join(other)) + 1)
        )
        assert found.capsule == (" ".join(other),), number
