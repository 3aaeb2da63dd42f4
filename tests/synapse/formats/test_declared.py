import pytest
from hypothesis import given
from hypothesis import strategies as st

from synapse.errors import InvalidEntry, NewerProtocol
from synapse.formats import declared
from synapse.model.agents import Agent, Skill, settled
from synapse.model.entry import PRIORITIES
from synapse.model.settings import EMBEDDERS, HOURLY, PROTOCOL, REPUTATION, Semantic, Settings
from tests.examples import examples

SPECIFICATION = """\
# shared-memory/agents/{agent-id}.yaml
agent:
  id: eng-frontend
  name: Frontend Engineer
  role: engineer              # cto | project-lead | engineer | specialist
  department: frontend
  engine: claude-code
  model: opus-4.5
  authority: 60               # 0-100, for conflict resolution

subscriptions:
  read:
    - "projects/*"
    - "status/frontend"
  write:
    - "status/frontend"
    - "blockers/*"
  notify:
    - critical                # receive critical entries immediately
"""
WHITE_PAPER = """\
version: "1.0"
protocol: synapse
implementation: file-based
namespaces: [api/*, design/*, infra/*, blockers/*, decisions/*]
consolidator:
  schedule: "0 3 * * *"
  engine: defrag
  size_limits: {per_namespace: 500KB, archive_retention: 90d}
  merge_strategy:
    auto_merge_threshold: 0.85
    preserve_dissent: true
"""

component = st.from_regex(r"\A[a-z0-9][a-z0-9_-]{0,10}\Z")
globs = st.lists(
    st.just("*") | st.lists(component, max_size=3).map(lambda parts: "/".join([*parts, "*"])),
    max_size=3,
)
unique_globs = globs.map(dict.fromkeys).map(tuple)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    [
        "no",
        "true",
        "1",
        "1.10",
        "null",
        "~",
        "2026-02-01",
        "- a",
        "a: b",
        "*",
        "&a",
        "#",
        "",
        " ",
        "\n",
        "0x1f",
        "é🎉",
    ]
)
names = st.lists(component, max_size=3, unique=True).map(tuple)
authority = st.integers(0, 100)
skills = st.builds(
    Skill, texts.filter(bool), authority, unique_globs.filter(bool), texts.filter(bool)
)
agents = st.builds(
    Agent,
    id=component,
    role=st.sampled_from(("cto", "engineer", "poet")),
    name=st.none() | texts,
    department=st.none() | component,
    engine=st.none() | texts,
    model=st.none() | texts,
    authority=st.none() | authority,
    read=st.none() | unique_globs,
    write=st.none() | unique_globs,
    notify=st.lists(st.sampled_from(PRIORITIES), unique=True).map(tuple),
    teams=names,
    projects=names,
    skills=st.lists(skills, max_size=2).map(tuple),
    review_required=st.booleans(),
    user=st.none() | texts,
    shift=st.just(0),
)
scalars = (
    texts
    | st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.sampled_from((0.85, -1.5, 2.0))
)
keys = texts.filter(lambda text: text not in declared._SETTINGS and text != "<<")
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
ttls = st.dictionaries(
    component.map("{}/*".format), st.sampled_from(("7d", "never", "30m")), max_size=3
)


def depth(value):
    if isinstance(value, dict | list):
        return 1 + max(map(depth, value.values() if isinstance(value, dict) else value), default=0)
    return 0


sizes = st.sampled_from(("off", "1", "500KB", "5 MB"))
maybe = st.none() | texts.filter(bool)
semantics = st.just(Semantic()) | st.builds(
    Semantic, st.sampled_from(EMBEDDERS), model=maybe, url=maybe, key=maybe, search=st.booleans()
)
workspaces = st.builds(
    Settings,
    protocol=st.integers(0, PROTOCOL),
    name=texts.filter(bool),
    ttl=ttls.map(dict.items).map(tuple),
    flat=st.booleans(),
    staging_ttl=st.sampled_from(("7d", "24h")),
    staging_limit=st.integers(0, 10**6),
    global_write=st.integers(0, 101),
    users=st.dictionaries(texts, component, max_size=3).map(dict.items).map(tuple),
    sizes=st.dictionaries(component | st.just("api/*"), sizes, max_size=3)
    .map(dict.items)
    .map(tuple),
    quota=st.dictionaries(component, st.sampled_from(("5", "off")), max_size=3)
    .map(dict.items)
    .map(tuple),
    hourly=st.dictionaries(st.sampled_from(tuple(HOURLY)), sizes, max_size=3)
    .map(dict.items)
    .map(tuple),
    semantic=semantics,
    reputation=st.sampled_from(REPUTATION),
    other=st.dictionaries(keys, values.filter(lambda value: depth(value) < 5), max_size=3)
    .map(dict.items)
    .map(tuple),
)


@examples(300)
@given(agents)
def test_an_agent_is_read_back_as_it_was_written(agent):
    assert declared.parse_agent(declared.render_agent(agent)) == agent


@examples(300)
@given(workspaces)
def test_settings_are_read_back_as_they_were_written(workspace):
    text = declared.render_settings(workspace)
    assert declared.parse_settings(text) == workspace
    assert declared.render_settings(declared.parse_settings(text)) == text


def test_an_agents_file_looks_like_the_specifications():
    agent = Agent(
        "eng-backend", name="Backend", department="backend", authority=60, read=("api/*",), write=()
    )
    skilled = agent._replace(
        skills=(Skill("databases", 75, ("api/*",), "expert"),), review_required=True
    )
    assert declared.render_agent(agent) == (
        "agent:\n  id: eng-backend\n  name: Backend\n  role: engineer\n  department:"
        " backend\n  authority: 60\n"
        "subscriptions:\n  read: [api/*]\n  write: []\n  notify: [critical]\n"
    )
    assert declared.render_agent(skilled).endswith(
        "skills:\n  - domain: databases\n    level: expert\n    namespaces: [api/*]\n"
        "    authority: 75\n"
    )


def test_the_specifications_own_agent():
    agent = declared.parse_agent(SPECIFICATION)
    assert agent == Agent(
        "eng-frontend",
        name="Frontend Engineer",
        department="frontend",
        engine="claude-code",
        model="opus-4.5",
        authority=60,
        read=("projects/*", "status/frontend"),
        write=("status/frontend", "blockers/*"),
    )


def test_an_agent_may_be_flat_and_leave_the_rest_to_its_role():
    agent = declared.parse_agent(
        "id: 007\nrole: specialist\ndepartment: qa\nnotify: critical, important\n"
    )
    assert (agent.id, agent.read, agent.notify) == ("007", None, ("critical", "important"))
    assert settled(agent).write == ("status/*", "blockers/*")


def test_texts_stay_texts():
    agent = declared.parse_agent(
        "id: a\nname: no\nmodel: 1.10\nengine: 2026-02-01\nuser: 1000\nteams: [1, on]\n"
    )
    assert (agent.name, agent.model, agent.engine, agent.user) == (
        "no",
        "1.10",
        "2026-02-01",
        "1000",
    )
    assert agent.teams == ("1", "on")


def test_the_white_papers_settings_are_kept():
    found = declared.parse_settings(WHITE_PAPER)
    assert found.protocol == 0
    other = dict(found.other)
    assert other["version"] == "1.0"
    assert other["consolidator"]["merge_strategy"] == {
        "auto_merge_threshold": 0.85,
        "preserve_dissent": True,
    }
    assert other["namespaces"] == ["api/*", "design/*", "infra/*", "blockers/*", "decisions/*"]
    assert declared.parse_settings(declared.render_settings(found)) == found


def test_a_time_to_live_may_stand_with_its_namespace():
    found = declared.parse_settings(
        "namespaces:\n  api/*: 30d\nttl:\n  team/*: 14d\nusers: {1000: eng-a}\n"
    )
    assert (dict(found.ttl), found.users) == (
        {"api/*": "30d", "team/*": "14d"},
        (("1000", "eng-a"),),
    )


def test_the_settings_of_nothing_are_the_defaults():
    assert declared.parse_settings("") == Settings(protocol=0)
    assert declared.parse_settings("\ufeff# nothing\n") == Settings(protocol=0)


def test_a_newer_protocol_is_refused_with_advice():
    with pytest.raises(NewerProtocol, match=r"synapse.yaml: protocol 9 is newer than 2.*upgrade"):
        declared.parse_settings("protocol: 9\nwhatever: [\n  it, says]\n", "synapse.yaml")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("role: cto", "id is missing"),
        ("id: a\nauthority: high", "authority is not valid: write a whole number"),
        ("id: a\nauthority: 60.5", "authority is not valid"),
        ("id: a\nreview_required: maybe", "review_required is not valid: write true or false"),
        ("id: a\nread: {a: b}", "read is not valid: write a list"),
        ("id: [a]", "id is not valid: write one text"),
        ("id: a\nskills: yes", "skills is not valid: write a list of blocks"),
        ("id: a\nskills: [{domain: db}]", "each needs domain, namespaces and authority"),
        ("id: a\nid: b", "line 2: 'id' is given twice"),
        ("agent: x", "agent is not valid: write a block"),
        ("- a", "expected lines of the form"),
        ("id: a\nname: &x y", "anchors"),
        ("a: " + "[" * 5000, "nested deeper than 6"),
        ("id: " + "a" * 70_000, "longer than 64 KiB"),
    ],
)
def test_what_is_wrong_names_the_file_and_the_field(text, told):
    with pytest.raises(InvalidEntry) as caught:
        declared.parse_agent(text, "agents/a.yaml")
    assert str(caught.value).startswith("agents/a.yaml: ")
    assert told in str(caught.value)
    assert caught.value.path == "agents/a.yaml"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("protocol: new", "protocol 'new' is not a number"),
        ("protocol: true", "protocol True is not a number"),
        ("authority: round", "authority 'round' is not valid: write flat or roles"),
        ("staging: {limit: many}", "staging: limit is not valid: write a whole number"),
        ("staging: [1]", "staging: expected `key: value` lines"),
        ("semantic: [1]", "semantic: expected `key: value` lines"),
        (
            "semantic: {embedder: word2vec}",
            "semantic: embedder 'word2vec' is not one of local, ollama, openai, off",
        ),
        ("semantic: {folder: x}", "semantic: folder names no weights any more"),
        ("semantic: {embedder: local, path: x}", "semantic: path is not known; embedder, model"),
        (
            "semantic: {embedder: local, search: maybe}",
            "semantic: search is not valid: write true or false",
        ),
        ("ttl: 7d", "ttl is not valid: write a block"),
        ("users: {a: [b]}", "users is not valid: write a block"),
        ("name: {a: b}", "name is not valid: write one text"),
    ],
)
def test_what_is_wrong_with_settings(text, told):
    with pytest.raises(InvalidEntry) as caught:
        declared.parse_settings(text, "synapse.yaml")
    assert told in str(caught.value)


def test_all_problems_are_told_at_once():
    with pytest.raises(InvalidEntry) as caught:
        declared.parse_agent("authority: high\nread: {a: b}\nreview_required: maybe")
    assert len(caught.value.problems) == 4


@examples(300)
@given(st.text(max_size=100))
def test_nothing_else_escapes(text):
    for parse in (declared.parse_agent, declared.parse_settings):
        try:
            parse(text)
        except (InvalidEntry, NewerProtocol):
            pass
