import pytest

from orchestrator.engines.protocol import ENGINES
from orchestrator.nightly.semantic import consolidation as semantic
from orchestrator.spend import limits, prices
from orchestrator.team import Team
from synapse.errors import InvalidEntry
from synapse.formats import keys
from synapse.formats.declared import parse_agent, parse_settings, read_settings
from synapse.model.agents import Agent, Skill
from synapse.model.settings import SIZES, Semantic, Settings


def paths(fields, table=keys.SETTINGS):
    return [stray.path for stray in keys.strays(fields, table)]


def below(block, table=keys.SETTINGS):
    """The names that a table has directly below a block."""
    inside = (path.removeprefix(f"{block}.") for path in table if path.startswith(f"{block}."))
    return {path.partition(".")[0] for path in inside}


def test_the_tables_have_what_the_readers_take():
    """A key that code reads and the table lacks would be refused; one that it has and code lacks
    does nothing.
    """
    assert below("semantic") == {*Semantic._fields}
    assert below("size_limits") == {*SIZES, "*"}
    assert below("limits") == {*limits.LEVELS, "zone"}
    for level in ("run", "tree", "day", "department.*"):
        assert below(f"limits.{level}") == {*limits.Limits._fields}
    assert below("prices.*") == {*prices.OWN_KEYS}
    assert below("consolidation.semantic") == {*semantic._KEYS}
    assert {path.partition(".")[0] for path in keys.TEAM} == {*Team._fields}
    assert below("agent", keys.AGENT) | below("subscriptions", keys.AGENT) == {*Agent._fields} - {
        "skills",
        "shift",
    }
    assert below("skills", keys.AGENT) == {*Skill._fields}
    fields = {
        "flat": "authority",
        "staging_ttl": "staging",
        "staging_limit": "staging",
        "sizes": "size_limits",
    }
    tops = {path.partition(".")[0] for path in keys.SETTINGS}
    assert {fields.get(name, name) for name in Settings._fields} - {"other"} <= tops
    assert tops >= {*keys.RUN_BLOCKS, "mirror", "namespaces"}


@pytest.mark.parametrize(
    ("fields", "path", "meant"),
    [
        ({"limit": {"run": {"usd": 0.01}}}, "limit", "limits"),
        ({"backup": {"dri": "/srv"}}, "backup.dri", "dir"),
        ({"backups": {"dir": "/srv"}}, "backups", "backup"),
        ({"limits": {"run": {"us": 1}}}, "limits.run.us", "usd"),
        (
            {"limits": {"department": {"web": {"dollars": 1}}}},
            "limits.department.web.dollars",
            "one of depth",
        ),
        ({"size_limits": {"per_namespase": "1MB"}}, "size_limits.per_namespase", "per_namespace"),
        ({"engines": {"fast": {"knd": "openai"}}}, "engines.fast.knd", "kind"),
        ({"semantic": {"embeder": "local"}}, "semantic.embeder", "embedder"),
        ({"budget": 5}, "budget", "one of protocol"),
    ],
)
def test_a_key_that_is_not_known_says_what_was_meant(fields, path, meant):
    (stray,) = keys.strays(fields, keys.SETTINGS)
    assert stray.path == path
    assert meant in stray.text


def test_what_is_known_or_an_extensions_is_no_stray():
    assert (
        paths(
            {
                "x-notes": {"anything": 1},
                "limits": {"x-mine": 1, "run": {"usd": 1, "x-why": "cheap"}},
            }
        )
        == []
    )
    assert (
        paths({"ttl": {"api/*": "1d", "x-files/*": "2d"}, "quota": {"eng-a": 5, "default": 9}})
        == []
    )
    assert (
        paths(
            {
                "size_limits": {"api/*": "1MB", "per_entry": "1KB"},
                "engines": {"me": {"command": "cat"}},
            }
        )
        == []
    )
    assert (
        paths({"namespaces": ["api/*"], "version": "1.0", "consolidator": {"engine": "defrag"}})
        == []
    )


def test_extensions_never_reach_a_reader():
    text = "protocol: 1\nx-mine: {a: 1}\nlimits: {x-why: 1, run: {usd: 1}}\nttl: {x-files/*: 2d}\n"
    text += "semantic: {x-a: 1, embedder: local}\n"
    found, problems = read_settings(text, "synapse.yaml", Settings())
    assert problems == ()
    assert dict(found.other) == {"x-mine": {"a": 1}, "limits": {"run": {"usd": 1}}}
    assert (dict(found.ttl), found.semantic.embedder) == ({"x-files/*": "2d"}, "local")
    assert parse_settings(text) == found
    assert parse_agent("agent: {id: a, x-mail: b}\nx-more: [1]\n").id == "a"


def test_a_bad_value_leaves_the_last_good_one_and_the_rest():
    last = Settings(reputation="on", ttl=(("api/*", "5d"),), staging_limit=7)
    text = (
        "reputation: maybe\nsemantic: {embedder: word2vec}\nttl: {api/*: soon}\nstaging:"
        " {limit: many, ttl: 1d}\n"
    )
    text += "quota: 5\n"
    found, problems = read_settings(text, "synapse.yaml", last)
    assert (found.reputation, dict(found.ttl), found.staging_limit) == ("on", {"api/*": "5d"}, 7)
    assert found.daily("anybody") == 5
    assert {problem.path for problem in problems} == {"reputation", "semantic", "ttl", "staging"}
    found, problems = read_settings("ttl: [", "synapse.yaml", last)
    assert (found, [problem.path for problem in problems]) == (last, [""])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("agent: {id: a, rol: cto}", "agent.rol is not known: did you mean role?"),
        ("id: a\nreed: [api/*]", "reed is not known: did you mean read?"),
        ("id: a\nreview_requierd: true", "did you mean review_required?"),
        (
            "id: a\nskills: [{domain: d, namespaces: [a], authority: 1, lvl: x}]",
            "skills.lvl is not known",
        ),
    ],
)
def test_an_agents_file_with_a_key_that_is_not_known_is_an_error(text, told):
    with pytest.raises(InvalidEntry, match=r"agents/a\.yaml") as caught:
        parse_agent(text, "agents/a.yaml")
    assert told in str(caught.value)


def test_every_engine_and_its_options_pass():
    assert (
        paths(
            {
                "engines": {
                    name: {"kind": name, "model": "m", "permissions": "own"} for name in ENGINES
                }
            }
        )
        == []
    )
