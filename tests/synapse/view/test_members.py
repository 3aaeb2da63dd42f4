"""Of a team that a task describes, each gets what is for it."""

import pytest

import synapse
from synapse.model.agents import Agent
from synapse.model.worth import CHANCES, THEIRS, Worth
from synapse.testing import FrozenClock
from synapse.view.members import MOST, Team

BAKER, SELLER, LEAD = Agent("baker"), Agent("seller", "specialist"), Agent("web-lead")
TEAM = (BAKER, SELLER, LEAD, Agent("lead", "cto"))
PLAN = """We open a bakery.
- the **baker** makes dough, and watches the oven.
- the **seller** writes the price list; the web-lead draws the shop's pages.
Everybody tastes the bread."""
PIECES = {
    "dough": "Mix flour and water. The dough rests for two hours, then it goes into the oven.",
    "oven": "Oven: 240 degrees, steam for the first ten minutes.",
    "prices": "Prices end in 5. Put the price list beside the door.",
    "pages": "Pages of the shop load in a second, on a telephone too.",
    "bread": "Bread is tasted at six.",
}


@pytest.fixture
def mem():
    with synapse.open("memory:", clock=FrozenClock()) as mem:
        for agent in TEAM:
            mem.register(agent._replace(read=("projects/*",)))
        mem.store.clock.advance("1s")
        yield mem


def say(mem, body, **more):
    return mem.as_agent("lead").append(body, "projects/bakery", priority="important", **more)


def fits(mem, text, reader=BAKER, pieces=PIECES):
    """Return how well the pieces fit a reader, by their names."""
    entries = {name: say(mem, body) for name, body in pieces.items()}
    by_seq = Team(text, reader, TEAM).fits(entries.values())
    return {name: by_seq.get(entry.seq, 1.0) for name, entry in entries.items()}


def test_a_piece_is_for_whom_its_words_are_said_of(mem):
    of_baker = fits(mem, PLAN)
    assert min(of_baker["dough"], of_baker["oven"]) > 1 > max(of_baker["prices"], of_baker["pages"])
    of_seller = fits(mem, PLAN, SELLER)
    assert of_seller["prices"] > 1 > max(of_seller["dough"], of_seller["oven"])
    assert of_baker["bread"] == of_seller["bread"] == 1, "what is said of nobody is for nobody more"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Watch the oven and write the price list.",
        "You are the baker: watch the oven.",
        "The seller writes the price list, and the web-lead the pages.",
    ],
)
def test_where_no_team_with_its_reader_is_named_nothing_is_known(mem, text):
    assert set(fits(mem, text).values()) == {1.0}
    assert Team(text, BAKER, TEAM).asked == text


def test_what_is_said_of_others_alone_is_not_asked_for():
    asked = Team(PLAN, BAKER, TEAM).asked
    assert "dough" in asked
    assert "tastes" in asked
    assert "price" not in asked
    assert "pages" not in asked


def test_a_heading_or_the_first_word_says_for_whom_a_piece_is(mem):
    pieces = {
        "own": "The baker's day\n\nPrices and price lists.",
        "theirs": "# Seller\n\nDough, and the oven.",
        "called": "seller: dough, and the oven.",
        "neither": "Ask the seller. Dough, and the oven.",
    }
    by_name = fits(mem, PLAN, BAKER, pieces)
    assert by_name["own"] == MOST
    assert by_name["theirs"] < 0.5 > by_name["called"]
    assert by_name["neither"] > 1


def test_of_two_names_the_longer_is_meant(mem):
    """`web-lead` is not `lead`, who is of the team too."""
    text = "The baker watches the oven; the web-lead draws pages."
    assert fits(mem, text)["pages"] < 1
    assert fits(mem, text, Agent("lead", "cto")) == dict.fromkeys(PIECES, 1.0)


def test_what_is_addressed_to_its_reader_needs_no_fit(mem):
    entry = say(mem, "Put the price list beside the door.", to="agent:baker")
    assert Team(PLAN, BAKER, TEAM).fits([entry]) == {}


def test_each_gets_its_own_pieces_in_half_the_room(mem):
    """The room goes to what is likeliest to be used for a token, not to the newest."""
    entries = {name: say(mem, body).id for name, body in PIECES.items()}
    for _ in range(3):  # the newest, and of no use to either
        say(mem, "A long remark about the weather, the street, and what was said of both. " * 3)
    whole = mem.as_agent("baker").briefing(about=PLAN)
    sizes = [entry.tokens for entry in whole.included]
    budget = whole.tokens - sum(sizes) // 2
    shown = {
        who: set(mem.as_agent(who).briefing(budget, about=PLAN).shown)
        for who in ("baker", "seller")
    }
    assert {entries["dough"], entries["oven"]} <= shown["baker"]
    assert entries["prices"] in shown["seller"]


def test_what_pays_is_what_fits(mem):
    """A price at which an important entry pays for itself only where it is its reader's."""
    entries = {name: say(mem, body).id for name, body in PIECES.items()}
    worth = Worth(100.0, 0.06, CHANCES, 2_000, 2_000, 0)
    baker, seller = (
        set(mem.as_agent(who).briefing(about=PLAN, worth=worth).shown)
        for who in ("baker", "seller")
    )
    assert entries["prices"] in seller - baker
    assert entries["oven"] in baker - seller


def test_a_fit_has_bounds(mem):
    long = "The baker " + " ".join(f"kneads{n} dough{n}" for n in range(200)) + ". seller: sells."
    values = fits(mem, long, BAKER, {"a": long, "b": "seller: it sells."}).values()
    assert all(THEIRS <= value <= MOST for value in values)
