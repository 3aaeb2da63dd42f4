import pytest
from hypothesis import given
from hypothesis import strategies as st

import synapse
from synapse import InvalidQuery, OverBudget
from synapse.model.agents import Agent
from synapse.model.worth import Worth
from synapse.testing import FrozenClock
from tests.examples import examples


def team(clock):
    mem = synapse.open("memory:", clock=clock)
    mem.register(Agent("eng-a", department="backend", read=("api/*",), write=("api/*", "vault/*")))
    mem.register(Agent("eng-b", department="backend", teams=("red",), read=("*",), write=("*",)))
    mem.register(Agent("lead", role="cto"))
    mem.register(Agent("junior", write=("api/*",), review_required=True))
    clock.advance("1s")
    return mem


@pytest.fixture
def mem(clock):
    with team(clock) as mem:
        yield mem


def ids(view):
    return [each.id for each in view.included]


def test_a_view_is_all_that_weighs_and_the_info_of_a_day(mem, clock):
    lead, me = mem.as_agent("lead"), mem.as_agent("eng-a")
    old = [
        lead.append(f"{kind}", "api/x", priority=kind, ttl="30d").id
        for kind in ("critical", "important", "info")
    ]
    clock.advance("3d")
    new = [
        lead.append(f"{kind}", "api/x", priority=kind).id
        for kind in ("critical", "important", "info")
    ]
    lead.append("hidden", "vault/x", priority="critical")
    assert sorted(ids(me.briefing())) == sorted([*old[:2], *new])


def test_a_day_of_info_begins_on_a_quarter_of_a_day(mem, clock):
    lead = mem.as_agent("lead")
    clock.set("2026-02-02T11:59:59Z")
    lead.append("before", "api/x", ttl="30d")
    clock.set("2026-02-02T12:00:00Z")
    first = lead.append("first", "api/x", ttl="30d")
    for now in ("2026-02-03T12:00:00Z", "2026-02-03T17:59:59Z"):
        clock.set(now)
        assert ids(mem.as_agent("eng-a").briefing()) == [first.id]


def test_what_is_critical_has_room_of_its_own_without_a_budget(mem):
    critical = mem.as_agent("lead").append("stop", "api/x", priority="critical")
    worth = Worth(1_000, 1, {}, criticals=300, most=500, least=100)
    assert ids(mem.as_agent("eng-a").briefing(worth=worth)) == [critical.id]


def test_a_view_counts_every_token_of_its_budget(mem):
    for n in range(40):
        mem.as_agent("lead").append(f"entry {n} " + "word " * n, "api/x", priority="important")
    me = mem.as_agent("eng-a")
    whole = me.briefing()
    for budget in (whole.tokens, whole.tokens - 1, 300, 60):
        view = me.briefing(budget)
        assert view.tokens <= budget
        assert len(view.included) + len(view.left_out) == 40
    assert me.briefing(whole.tokens).markdown() == whole.markdown()
    with pytest.raises(OverBudget):
        me.briefing(2)


def test_counts_are_kept(mem):
    me = mem.as_agent("eng-a")
    mem.as_agent("lead").append("text", "api/x")
    assert me.briefing(encoding="cl100k_base").encoding == "cl100k_base"
    first = me.briefing()
    assert me.briefing() == first


def test_a_department_s_view_is_what_all_of_it_may_see(mem):
    lead = mem.as_agent("lead")
    common = lead.append("common", "api/x")
    lead.append("one's", "vault/x")
    lead.append("red", "api/x", to="team:red")
    named = lead.append("backend", "vault/x", to="team:backend")
    for who in ("lead", "operator", "eng-b"):
        view = mem.as_agent(who).briefing(department="backend")
        assert sorted(ids(view)) == sorted((common.id, named.id))
        assert "department backend" in view.markdown()
    for wrong in ("nobody", "../x", ""):
        with pytest.raises(InvalidQuery, match="department"):
            lead.briefing(department=wrong)


def test_a_department_s_view_names_no_rival_that_one_of_it_may_not_see(mem):
    shown = mem.as_agent("eng-b").append("shown", "api/x", topic="t")
    secret = mem.as_agent("eng-a").append("secret", "api/x", topic="t", to="eng-a")
    assert secret.id in mem.as_agent("operator").briefing().markdown()
    view = mem.as_agent("operator").briefing(department="backend")
    assert ids(view) == [shown.id]
    assert secret.id not in view.markdown()


acts = st.lists(
    st.one_of(
        st.tuples(
            st.just("write"),
            st.sampled_from(("eng-a", "eng-b", "lead", "junior")),
            st.sampled_from(("api/x", "api/y")),
            st.sampled_from(("critical", "info")),
            st.sampled_from((None, "t")),
            st.sampled_from(("1h", "30d")),
        ),
        st.tuples(
            st.sampled_from(("archive", "resolve", "approve", "supersede")), st.integers(0, 9)
        ),
        st.tuples(st.just("wait"), st.sampled_from(("40m", "1d"))),
        st.tuples(st.just("declare"), st.sampled_from((("api/*",), ("*",), ("api/y",)))),
        st.tuples(st.just("look")),
    ),
    max_size=14,
)


@given(acts)
@examples(60)
def test_as_of_is_what_it_was(story):
    """Every view that was given is given again, byte for byte, for its time; whatever came
    since.
    """
    clock = FrozenClock()
    with team(clock) as mem:
        written, given_then = [], []
        lead = mem.as_agent("lead")
        for kind, *rest in [*story, ("look",)]:
            if kind == "write":
                author, where, priority, topic, ttl = rest
                entry = mem.as_agent(author).append(
                    f"body {len(written)}", where, priority=priority, topic=topic, ttl=ttl
                )
                written.append(entry.id)
            elif kind == "wait":
                clock.advance(*rest)
            elif kind == "declare":
                mem.register(Agent("eng-a", department="backend", read=rest[0], write=("api/*",)))
            elif kind == "look":
                clock.advance("1s")
                for who in ("eng-a", "lead"):
                    view = mem.as_agent(who).briefing()
                    given_then.append((who, None, clock(), view.markdown()))
                common = mem.as_agent("operator").briefing(department="backend")
                given_then.append(("operator", "backend", clock(), common.markdown()))
            elif written:
                rule(lead, kind, written[rest[0] % len(written)])
            clock.advance("1s")
        for who, department, moment, text in given_then:
            assert (
                mem.as_agent(who).briefing(as_of=moment, department=department).markdown() == text
            )


def rule(lead, kind, id):
    try:
        if kind == "supersede":
            lead.append("instead", "api/x", supersedes=id)
        else:
            getattr(lead, kind)(id)
    except synapse.SynapseError:
        pass  # it does not wait for review, or is another's


def test_as_of_takes_spans_and_times_and_no_nonsense(mem, clock):
    lead = mem.as_agent("lead")
    lead.append("old", "api/x")
    moment = clock.advance("1h")
    new = lead.append("new", "api/x")
    clock.advance("1h")
    for as_of in (moment - 1, "90m", "2026-02-01T09:30:00Z"):
        assert "new" not in lead.briefing(as_of=as_of).markdown()
        assert [entry.id for entry in lead.later(as_of)] == [new.id]
    assert lead.briefing(as_of="3d").included == ()
    assert lead.later("0s") == []
    for wrong in ("soon", ""):
        with pytest.raises(InvalidQuery):
            lead.briefing(as_of=wrong)
        with pytest.raises(InvalidQuery):
            lead.later(wrong)


def test_later_is_what_came_since_and_is_shown_now(mem, clock):
    lead, me = mem.as_agent("lead"), mem.as_agent("eng-a")
    before = lead.append("before", "api/x")
    moment = clock.advance("1h")
    clock.advance("1h")
    one = lead.append("one", "api/x", ttl="1h")
    two = lead.append("two", "api/x", supersedes=before.id)
    lead.append("hidden", "vault/x"), lead.append("for others", "api/x", to="lead")
    assert [entry.id for entry in me.later(moment)] == [one.id, two.id]
    assert [entry.id for entry in mem.as_agent("operator").later(moment, "backend")] == [
        one.id,
        two.id,
    ]
    clock.advance("2h")
    assert [entry.id for entry in me.later(moment)] == [two.id]


def test_new_info_leaves_the_beginning_as_it_was(mem):
    lead, me = mem.as_agent("lead"), mem.as_agent("eng-a")
    for n in range(5):
        lead.append(f"important {n}", "api/x", priority="important")
        lead.append(f"info {n}", "api/x")
    before = me.briefing().markdown()
    lead.append("one more", "api/x")
    after = me.briefing().markdown()
    shared = (
        next(
            place
            for place, pair in enumerate(zip(before, after, strict=False))
            if pair[0] != pair[1]
        )
        if not (after.startswith(before))
        else len(before)
    )
    assert shared >= before.rindex("info 4")
