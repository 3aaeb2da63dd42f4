import json
import time

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from synapse.authority import admit, check_form
from synapse.errors import InvalidEntry
from synapse.formats import codec, front_matter
from synapse.model import kinds
from synapse.model.entry import (
    NEVER,
    PRIORITIES,
    TRUST,
    Draft,
    Entry,
    addressees,
    expiry,
    parse_ttl,
)
from synapse.model.entry_fields import TEXTS
from synapse.model.records import canonical_body
from synapse.model.settings import Settings
from tests.examples import examples

HEAD = (
    "---\nid: syn-2026-02-01-001\nfrom: eng-frontend\nto: all\ntimestamp: 2026-02-01T01:00:00Z\n"
    "namespace: status/brain-suite\npriority: info\n"
)
SPECIFICATION = (
    "---\n"
    "id: syn-2026-02-01-001\n"
    "from: eng-frontend\n"
    "to: all                          # all | team:{name} | agent:{id}\n"
    "timestamp: 2026-02-01T01:00:00Z\n"
    "namespace: status/brain-suite\n"
    "priority: info                   # critical | important | info\n"
    "ttl: 7d                          # auto-archive after TTL\n"
    "tags: [frontend, landing-page, deployed]\n"
    "supersedes: null                 # id of entry this replaces\n"
    "---\n"
    "\n"
    "Deployed hippocampus-md and neocortex-md landing pages.\n"
    "\n"
    "---\n"
    "URLs:\n"
    "- https://hippocampus-md.vercel.app\n"
)
WHITE_PAPER = (
    "---\nid: syn-2026-01-31-inv-001\nfrom: r2d2\ntimestamp:"
    " 2026-01-31T10:00:00Z\nnamespace: api/endpoints\n"
    "priority: critical\nttl: permanent\ntags: [breaking, v2]\nrelated: [syn-2026-01-30-042]\n"
    "authority: senior\n---\n\nUse /v2/users.\n"
)
HOSTED = (
    "---\nid: syn-65b9f1c2a4d5e6f708192a3b\nfrom_agent: spock\nnamespace:"
    " general\npriority: warn\nttl: null\n"
    "tags: [db]\ncreated_at: 2026-02-20T10:00:00.123Z\ncontent: |\n  Migrate"
    " first.\n\n  Then deploy.\n---\n"
)

# -- values ----------------------------------------------------------------------------

component = st.from_regex(r"\A[a-z0-9][a-z0-9_-]{0,12}\Z")
namespaces = st.lists(component, min_size=1, max_size=6).map("/".join)
ids = st.from_regex(r"\Asyn-[A-Za-z0-9_-]{1,30}\Z")
many_ids = st.lists(ids, max_size=4, unique=True).map(tuple)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
maybe = st.none() | texts.filter(bool)
traps = st.sampled_from(
    "no yes on off true null ~ 007 1.10 12:30:45 2026-02-01 1e5 0x1f - ? : # & * ! |"
    " > % @ ` [ ] { } , <<"
    " a:b a: #x =".split()
)
tags = st.lists((texts | traps).map(str.strip).filter(bool), max_size=5, unique=True).map(tuple)
bodies = (texts | st.just("---") | st.just("a\n---\nb")).map(canonical_body).filter(bool)
names = (
    st.just("all") | component | component.map("team:{}".format) | component.map("agent:{}".format)
)
ttls = st.sampled_from(("7d", "24h", "30m", "90d", "1w", "15s", "0d", "never"))
times = st.datetimes().map(lambda moment: moment.isoformat() + "Z")


def own_fields(kind):
    """The fields that a kind has of its own, any of them, each of its form."""
    forms = {
        "text": (texts | traps).filter(bool),
        "id": st.from_regex(r"syn_[0-9a-f]{12}", fullmatch=True),
        "list": st.lists(texts | traps, max_size=3).map(tuple),
        "number": st.integers(0, 10**6) | st.floats(0, 3),
        "json": st.dictionaries(
            texts, st.integers() | texts | st.lists(texts, max_size=2), min_size=1, max_size=2
        ),
    }
    fields = {name: forms[form] for name, form in kinds.FIELDS[kind].items()}
    return st.fixed_dictionaries({}, optional=fields).map(kinds.frozen)


whole_entries = st.builds(
    Entry,
    id=ids,
    author=component,
    timestamp=times,
    namespace=namespaces,
    priority=st.sampled_from(PRIORITIES),
    body=bodies,
    ttl=ttls,
    addressees=st.lists(names, min_size=1, max_size=3).map(addressees),
    tags=tags,
    related=many_ids,
    replaces=many_ids,
    topic=maybe | traps,
    scope=st.sampled_from(("public", "team", "private", "encrypted")),
    claim=maybe | traps,
    derived_from=many_ids,
    evidence=maybe,
    when=maybe | traps,
    signature=maybe | traps,
    authority=st.integers(0, 100),
    trust=st.sampled_from(TRUST),
    seq=st.integers(0, 10**7),
    at=st.integers(0, 2**51),
    expires=st.just(NEVER) | st.integers(0, 2**51),
    alias=st.none() | ids,
    kind=st.just("entry"),
    more=st.just(kinds.NO_MORE),
)
of_kinds = st.sampled_from(kinds.KINDS).flatmap(
    lambda kind: st.tuples(st.just(kind), own_fields(kind))
)
entries = st.builds(
    lambda entry, of: entry._replace(kind=of[0], more=of[1]), whole_entries, of_kinds
)


def drafted(entry: Entry) -> Draft:
    return Draft(**{name: getattr(entry, name) for name in Draft._fields if name != "pii"})


def parse_reference(text):
    """Return what `codec.parse` returns, always by way of python-frontmatter and YAML."""
    decoded = codec._decode(text, "")
    return codec._read(decoded, *codec._reference(decoded, ""), "", None)


# -- round trips -----------------------------------------------------------------------


@examples(150)
@given(entries)
def test_what_is_written_is_read_back(entry):
    text = codec.render(entry)
    parsed = codec.parse(text)
    assert parsed.draft == drafted(entry)
    assert parsed.generation == "A"
    assert canonical_body(text[parsed.start :]) == entry.body
    assert parse_reference(text) == parsed == codec.parse(text.encode())


@examples(150)
@given(entries)
def test_other_readers_of_yaml_see_the_same_texts(entry):
    front = codec.render(entry).split("\n---\n")[0].removeprefix("---\n")
    seen = yaml.load(front, Loader=yaml.SafeLoader)
    assert seen["id"] == entry.id
    assert seen["from"] == entry.author
    assert seen["namespace"] == entry.namespace
    assert seen["ttl"] == entry.ttl
    assert seen.get("tags", []) == list(entry.tags)
    assert seen.get("topic") == entry.topic
    assert seen.get("evidence") == entry.evidence
    assert all(line.count("\n") == 0 and ":" in line for line in front.split("\n"))


@examples(150)
@given(entries)
def test_the_white_papers_form_keeps_what_it_can_say(entry):
    draft = codec.parse(codec.render_as(entry, "B")).draft
    kept = "id author timestamp namespace priority body ttl tags related replaces claim".split()
    assert [getattr(draft, name) for name in kept] == [getattr(entry, name) for name in kept]


@examples(150)
@given(entries)
def test_the_hosted_form_keeps_what_it_can_say(entry):
    fields = json.loads(codec.render_as(entry, "C"))
    body = fields.pop("content")
    front = yaml.safe_dump(fields, allow_unicode=True)
    parsed = codec.parse(f"---\n{front}---\n{body}")
    kept = "id author timestamp namespace priority body ttl tags".split()
    assert {name: getattr(parsed.draft, name) for name in kept} == {
        name: getattr(entry, name) for name in kept
    }
    assert parsed.generation == "C"


@examples(100)
@given(entries)
def test_json_names_every_field(entry):
    seen = json.loads(json.dumps(codec.entry_json(entry)))
    assert {"id", "from", "to", "supersedes", "received", "expires", "body"} < seen.keys()
    assert len(seen) == len(Entry._fields)
    assert (seen["from"], seen["body"]) == (entry.author, entry.body)


def test_expiry_in_json():
    entry = Entry("syn-1", "a", "2026-02-01T01:00:00Z", "api", "info", "x", "7d", at=1_000_000)
    assert (
        codec.entry_json(entry._replace(expires=2_000_000))["expires"]
        == "1970-01-01T00:00:02.000000Z"
    )
    assert codec.entry_json(entry._replace(expires=NEVER))["expires"] is None


def test_a_written_entry_can_be_grepped():
    entry = Entry(
        "syn-2026-02-01-001", "eng-backend", "2026-02-01T01:00:00Z", "api/endpoints", "critical", "Use /v2.", "30d",
        tags=("api", "no"), replaces=("syn-2026-01-30-042",), topic="users: endpoint",
    )  # fmt: skip
    assert codec.render(entry) == (
        "---\nid: syn-2026-02-01-001\nfrom: eng-backend\nto: all\ntimestamp: 2026-02-01T01:00:00Z\n"
        'namespace: api/endpoints\npriority: critical\nttl: 30d\ntags: [api, "no"]\n'
        'supersedes: syn-2026-01-30-042\ntopic: "users: endpoint"\n---\n\nUse /v2.\n'
    )


def test_an_entry_that_could_not_be_read_back_is_not_written():
    entry = Entry("syn-1", "a", "2026-02-01T01:00:00Z", "api", "info", "x", "7d")
    longest = entry._replace(evidence="é" * 4000)
    assert codec.parse(codec.render(longest)).draft.evidence == longest.evidence
    with pytest.raises(InvalidEntry, match="8 KiB"):
        codec.render(entry._replace(evidence="é" * 4100))


# -- the three generations -------------------------------------------------------------


def test_the_specifications_own_example():
    parsed = codec.parse(SPECIFICATION)
    assert parsed.generation == "A"
    assert parsed.draft == Draft(
        body=SPECIFICATION[parsed.start :].strip(),
        namespace="status/brain-suite",
        author="eng-frontend",
        ttl="7d",
        tags=("frontend", "landing-page", "deployed"),
        timestamp="2026-02-01T01:00:00Z",
        id="syn-2026-02-01-001",
    )
    assert "\n---\nURLs:" in parsed.draft.body


def test_the_white_papers_example():
    draft, generation, _ = codec.parse(WHITE_PAPER)
    assert generation == "B"
    assert (draft.ttl, draft.claim, draft.related) == ("never", "senior", ("syn-2026-01-30-042",))
    assert draft.id == "syn-2026-01-31-inv-001"


def test_the_hosted_apis_form():
    draft, generation, start = codec.parse(HOSTED)
    assert (generation, start) == ("C", 0)
    assert (draft.author, draft.priority, draft.ttl) == ("spock", "important", "never")
    assert draft.body == "Migrate first.\n\nThen deploy."
    assert draft.timestamp == "2026-02-20T10:00:00.123Z"


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("low", "info"),
        ("info", "info"),
        ("warn", "important"),
        ("error", "critical"),
        ("critical", "critical"),
    ],
)
def test_priorities_of_the_hosted_api(theirs, ours):
    assert codec.parse(HOSTED.replace("warn", theirs)).draft.priority == ours


def test_priorities_of_the_hosted_api_are_words_of_that_api_only():
    with pytest.raises(InvalidEntry, match="priority 'warn' is not valid"):
        codec.parse(HEAD.replace("info", "warn") + "---\nx")


def test_a_hosted_entry_with_its_body_as_the_tail():
    text = (
        "---\nfrom_agent: r2d2\ncreated_at: 2026-02-20\npriority: low\nnamespace:"
        " general\n---\nHello\n"
    )
    draft, generation, start = codec.parse(text)
    assert (generation, draft.body, text[start:]) == ("C", "Hello", "Hello\n")


@pytest.mark.parametrize("ttl", ["30m", "24h", "7d", "90s", "2w", "permanent", "never", "NEVER"])
def test_words_for_a_time_to_live(ttl):
    draft = codec.parse(f"{HEAD}ttl: {ttl}\n---\nx").draft
    assert draft.ttl is not None
    assert parse_ttl(draft.ttl) == parse_ttl(ttl)


def test_a_missing_time_to_live_is_the_namespaces():
    assert codec.parse(f"{HEAD}ttl: null\n---\nx").draft.ttl is None
    assert codec.parse(f"{HEAD}ttl:\n---\nx").draft.ttl is None
    assert codec.parse(HOSTED.replace("ttl: null\n", "")).draft.ttl is None
    assert expiry(str(codec.parse(HOSTED).draft.ttl), 5) == NEVER


# -- every scalar is text --------------------------------------------------------------


def test_nothing_is_taken_for_a_number_a_date_or_a_truth():
    draft = codec.parse(
        "---\nid: 2026-02-01\nfrom: 007\ntimestamp: 2026-02-01\nnamespace: 1/2\npriority: info\n"
        "tags: [no, 1.10, on, 2026-02-01]\ntopic: 12:30:45\nwhen: 1e3\nauthority: 100\n---\nx"
    ).draft
    assert (draft.author, draft.namespace, draft.topic, draft.when) == (
        "007",
        "1/2",
        "12:30:45",
        "1e3",
    )
    assert draft.tags == ("no", "1.10", "on", "2026-02-01")
    assert (draft.timestamp, draft.claim) == ("2026-02-01", "100")
    assert draft.id is None, "not the id of an entry: it gets a fresh one"


def test_a_time_of_day_is_no_time_to_live():
    with pytest.raises(
        InvalidEntry, match="ttl '12:30:45' is not valid: write a number and s, m, h, d or w"
    ):
        codec.parse(f"{HEAD}ttl: 12:30:45\n---\nx")


def test_the_sealed_scopes_can_be_read():
    draft = codec.parse(f"{HEAD}pii: true\nscope: private\n---\nx").draft
    assert (draft.pii, draft.scope) == (True, "private")
    assert codec.parse(f"{HEAD}pii: no\n---\nx").draft.pii is False
    with pytest.raises(InvalidEntry, match="pii 'maybe'"):
        codec.parse(f"{HEAD}pii: maybe\n---\nx")


def test_addressees_and_lists_may_be_words_with_commas():
    draft = codec.parse(
        HEAD.replace("to: all", "to: team:backend, eng-qa") + "tags: a, b,a\n---\nx"
    ).draft
    assert (draft.addressees, draft.tags) == (("agent:eng-qa", "team:backend"), ("a", "b"))
    assert codec.parse(HEAD.replace("to: all", "to: [agent:x]") + "---\nx").draft.addressees == (
        "agent:x",
    )


def test_unknown_keys_are_tolerated():
    assert codec.parse(f"{HEAD}workspace_id: 5\nmood: {{a: b}}\n---\nx").draft.body == "x"


# -- what is wrong is said at once -----------------------------------------------------


def test_every_problem_is_listed():
    with pytest.raises(InvalidEntry) as caught:
        codec.parse(
            "---\nfrom: Eng Backend\nttl: soon\nto: team:X\nrelated: [x]\nscope: all\n---\n\n",
            path="d/x.md",
        )
    problems = caught.value.problems
    assert [problem.split()[0] for problem in problems] == [
        "the", "from", "timestamp", "priority", "ttl", "to", "related", "scope",
    ]  # fmt: skip
    assert str(caught.value).startswith(
        "d/x.md: the body is empty; from 'Eng Backend' is not valid"
    )
    assert caught.value.path == "d/x.md"


def test_the_place_of_a_file_is_its_namespace():
    bare = HEAD.replace("namespace: status/brain-suite\n", "")
    assert codec.parse(bare + "---\nx").draft.namespace == ""
    assert codec.parse(bare + "---\nx", namespace="api").draft.namespace == "api"
    assert (
        codec.parse(HEAD + "---\nx", namespace="status/brain-suite").draft.namespace
        == "status/brain-suite"
    )
    with pytest.raises(InvalidEntry, match="does not fit the place of the file, which is api"):
        codec.parse(HEAD + "---\nx", namespace="api")


@pytest.mark.parametrize(
    "namespace",
    ["../x", "a/../b", "/etc", "a//b", "A", "a/", "a" * 64, "еng", "a\\b", ".", "a/b/c/d/e/f/g"],
)
def test_hostile_namespaces_are_refused(namespace):
    with pytest.raises(InvalidEntry, match=r"namespace .* is not valid"):
        codec.parse(
            HEAD.replace("status/brain-suite", f'"{namespace}"'.replace("\\", "\\\\")) + "---\nx"
        )


@pytest.mark.parametrize(
    "author", ["еng-backend", "Eng", "eng.backend", "a b", "../x", "no\u200b", "ｅng", "a" * 64]
)
def test_ids_of_agents_are_plain(author):
    with pytest.raises(InvalidEntry, match=r"from .* is not valid"):
        codec.parse(HEAD.replace("eng-frontend", author) + "---\nx")


# -- hostile text ----------------------------------------------------------------------

REFUSED = {
    "JSON front matter": '{"id": "syn-1"}\n\nx',
    "TOML front matter": "+++\nid = 1\n+++\nx",
    "JSON is not read here": '---\n{"id": "syn-1", "from": "a"}\n---\nx',
    "no front matter": "Hello\n---\na: b\n---\nx",
    "not closed": HEAD,
    "anchors and aliases": f"{HEAD}tags: &a [x]\nrelated: *a\n---\nx",
    "merge keys": f"{HEAD}<<: {{a: b}}\n---\nx",
    "tags \\(!\\)": f"{HEAD}topic: !!python/object/apply:os.system [id]\n---\nx",
    "line 8: 'from' is given twice": f"{HEAD}from: r2d2\n---\nx",
    "deeper than 2 levels": f"{HEAD}x: {'[' * 5000}\n---\nx",
    "a key must be a word": f"{HEAD}? [a]\n: b\n---\nx",
    "longer than 8 KiB": f"{HEAD}topic: {'x' * 8200}\n---\nx",
    "not closed by a line": "---\nid: a\n----\nx",
    "a NUL character": f"{HEAD}---\nx\0y",
    "tags holds a NUL": f'{HEAD}tags: ["x\\0y"]\n---\nx',
    "topic .* is not valid": f'{HEAD}topic: "x\\0y"\n---\nx',
    "expected <document start>": f"{HEAD}...\nfrom: r2d2\n---\nx",
    "document start": "---\n%YAML 1.1\n--- \nfrom: r2d2\n---\nx",
    "from .* is not valid": "---\nfrom: [a]\n---\nx",
    "expected lines of the form": "---\n- a\n- b\n---\nx",
    "control characters": f"{HEAD}topic: \x1b[31m\n---\nx",
    "body is empty": f"{HEAD}---\n\n \n",
    "timestamp '2026-02-31": HEAD.replace("02-01T", "02-31T") + "---\nx",
}


@pytest.mark.parametrize(("problem", "text"), REFUSED.items(), ids=list(REFUSED))
def test_hostile_front_matter_is_refused(problem, text):
    with pytest.raises(InvalidEntry, match=problem):
        codec.parse(text)
    with pytest.raises(InvalidEntry, match=problem):
        parse_reference(text)


def test_bytes_that_are_not_text_are_refused():
    with pytest.raises(InvalidEntry, match="not UTF-8: byte 3"):
        codec.parse(b"---\xff\n")
    with pytest.raises(InvalidEntry, match="longer than 2 MiB"):
        codec.parse(b"-" * (codec.MAX_TEXT + 1))


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "---\n\nHello\n",
        "\ufeff" + HEAD + "---\nHello",
        (HEAD + "---\n\nHello\n").replace("\n", "\r\n"),
        (HEAD + "---\n\nHello\n").replace("\n", "\r"),
        "\n\n" + HEAD + "---  \nHello",
        HEAD.replace("---", "---\t") + "---\n\n\nHello   \n\n",
        "\ufeff\r\n" + (HEAD + "---\n\nHello").replace("\n", "\r\n"),
    ],
    ids=["plain", "bom", "crlf", "cr", "blank lines", "tabs", "all"],
)
def test_other_peoples_line_ends_are_tolerated(text):
    parsed = codec.parse(text)
    assert parsed.draft.body == "Hello" == canonical_body(text[parsed.start :])
    assert parsed.draft.author == "eng-frontend"
    assert codec.parse(text.encode()) == parsed == parse_reference(text)


@pytest.mark.parametrize(
    "body",
    ["a\n---\nb", "---", "Привет 🎉", "    indented", "<|endoftext|>", "\u202eabc", "{{ x }}"],
)
def test_bodies_are_kept_as_they_are(body):
    assert codec.parse(f"{HEAD}---\n\n{body}\n").draft.body == body


WORST = {
    "brackets": "---\na: " + "[" * 8000 + "\n---\nx",
    "brackets on lines": "---\na: " + "[\n" * 4000 + "\n---\nx",
    "braces": "---\na: " + "{a: " * 2000 + "\n---\nx",
    "lists": "---\n" + "- " * 4000 + "\n---\nx",
    "question marks": "---\n" + "? " * 4000 + "\n---\nx",
    "colons": "---\n" + ":" * 8000 + "\n---\nx",
    "quotes": "---\n" + '"' * 8000 + "\n---\nx",
    "keys": "---\n" + "".join(f"k{n}: v\n" for n in range(900)) + "---\nx",
    "short keys": "---\n" + "".join(f"{chr(0x4E00 + n)}:\n" for n in range(1600)) + "---\nx",
    "items": "---\ntags: [" + "a," * 4000 + "]\n---\nx",
    "bad ids": "---\nrelated: [" + ",".join(f"x{n}" for n in range(1300)) + "]\n---\nx",
    "addressees": "---\nto: [" + ",".join(f"a{n}" for n in range(1300)) + "]\n---\nx",
    "many addressees": "---\nto: " + "a," * 4000 + "\n---\nx",
    "digits": HEAD + "ttl: " + "9" * 7900 + "d\n---\nx",
    "escapes": HEAD + 'topic: "' + "\\U0001F600" * 700 + '"\n---\nx',
    "folded": HEAD + "evidence: >\n" + " a\n" * 2500 + "---\nx",
    "white space": "---\n" + " " * 2_000_000,
    "line ends": "\n" * 2_000_000,
    "line ends in the body": HEAD + "---\n" + "\r\n" * 1_000_000 + "x",
    "fences": "---\n" * 500_000,
    "dashes": "-" * 2_000_000,
    "wide": HEAD + "---\n" + "🎉" * 500_000,
    "marks": "\ufeff" * 600_000,
    "bombs": "---\n"
    + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 300))
    + "---\nx",
}


def refusal(raw):
    try:
        codec.parse(raw)
    except InvalidEntry as error:
        return str(error)
    return ""


@pytest.mark.parametrize("text", WORST.values(), ids=list(WORST))
def test_the_worst_texts_take_no_time(text):
    codec.parse(SPECIFICATION)  # imports YAML
    raw = text.encode()
    spent = []
    for _ in range(3):
        before = time.process_time()  # its own, however much else the machine has to do
        problem = refusal(raw)
        spent.append(time.process_time() - before)
        assert len(problem) < 20_000
    assert min(spent) < 0.05


# -- two readers, one answer -----------------------------------------------------------

PIECES = (
    "a b1 0 7d all no null Null ~ none : # - , [ ] { } ' \" & * ! | > % @ ` ? = <<"
    " ... --- \\ / . team:x é [] (x) +"
    " 2026-02-01T01:00:00Z syn-1"
).split()
PIECES += [" ", "  ", ": ", " #", "- ", ", ", "[a, b]", "\t", "\r", "\x85", "\u2028", "\ufeff"]
piece = st.sampled_from(PIECES)
key = st.sampled_from([*sorted(codec._KEYS), "mood", "From", "", " from", "null"])
line = st.tuples(
    key, st.sampled_from([": ", ":", " : ", ":  "]), st.lists(piece, max_size=5).map("".join)
).map("".join)
fronts = st.lists(line | st.lists(piece, max_size=6).map("".join), max_size=8).map("\n".join)
sane = st.lists(
    line.filter(lambda text: ": " in text),
    min_size=1,
    max_size=4,
    unique_by=lambda text: text.split(":")[0],
)


def answer(parse, text):
    try:
        return parse(text)
    except InvalidEntry:
        return None


def agree(text):
    found = front_matter.flat(text, codec._KEYS)
    if found is not None:
        assert found == front_matter.reference(text)
    assert answer(codec.parse, text) == answer(parse_reference, text)
    return found is not None


@examples(1000)
@given(
    fronts | sane.map("\n".join),
    st.sampled_from(["\n---\n", "\n--- \n", "\n---", "---\n"]),
    st.sampled_from(["x", "\n\nx\n", ""]),
)
@example("topic: a[b], c", "\n---\n", "x")
@example("topic: a#b", "\n---\n", "x")
@example("tags: [a b, c:d]", "\n---\n", "x")
@example("tags: [a, null, b]", "\n---\n", "x")
@example("from: a\nfrom: b", "\n---\n", "x")
@example("topic: a:", "\n---\n", "x")
@example("topic: 'a: b'", "\n---\n", "x")
@example("topic: 'it''s'", "\n---\n", "x")
@example('topic: "null"', "\n---\n", "x")
@example("topic: '", "\n---\n", "x")
@example("topic: 'a' b", "\n---\n", "x")
@example("tags: ['a, b', \"c\"]", "\n---\n", "x")
@example("tags: ['', \"~\"]", "\n---\n", "x")
@example("topic: a*b=c@d(e)", "\n---\n", "x")
def test_the_fast_reader_agrees_with_the_reference(front, closing, rest):
    agree(f"---\n{front}{closing}{rest}")


@examples(300)
@given(st.data())
def test_the_fast_reader_agrees_near_what_is_common(data):
    """One change, anywhere, to a text that the fast reader takes."""
    text = codec.render(data.draw(entries))
    where = data.draw(st.integers(0, min(len(text), 300)))
    cut = data.draw(st.integers(0, 3))
    agree(text[:where] + data.draw(piece) + text[where + cut :])


@pytest.mark.parametrize(
    "text", [*REFUSED.values(), *WORST.values(), SPECIFICATION, WHITE_PAPER, HOSTED]
)
def test_the_fast_reader_agrees_on_hostile_text(text):
    agree(text)


def test_the_fast_reader_takes_what_is_common():
    entry = Entry(
        "syn-2026-02-01-001",
        "eng-a",
        "2026-02-01T01:00:00Z",
        "api/x",
        "info",
        "b",
        "7d",
        tags=("a", "b-c"),
    )
    assert front_matter.flat(codec.render(entry), codec._KEYS)
    assert front_matter.flat(codec.render_as(entry, "B"), codec._KEYS)


def test_the_fast_reader_takes_quotes_around_what_is_common():
    text = '---\nid: "syn-1"\nfrom: \'eng-a\'\nttl: "null"\ntags: [\'a\', "b c", d]\n---\nx'
    fields, start = front_matter.flat(text, codec._KEYS)
    assert fields == {"id": "syn-1", "from": "eng-a", "ttl": "null", "tags": ["a", "b c", "d"]}
    assert text[start:] == "x"


def test_the_limit_of_length_is_the_same_for_both():
    for extra in range(-3, 4):
        front = "from: a\ntopic: "
        agree(f"---\n{front}{'x' * (front_matter.MAX_FRONT - len(front) - 1 + extra)}\n---\nx")


@examples(300)
@given(st.text(max_size=200) | fronts.map("---\n{}\n---\nx".format))
def test_nothing_else_escapes_from_text(text):
    answer(codec.parse, text)


@examples(300)
@given(st.binary(max_size=200), st.integers(0, 300))
def test_nothing_else_escapes_from_bytes(noise, where):
    raw = SPECIFICATION.encode()
    answer(codec.parse, raw[:where] + noise + raw[where:])
    answer(codec.parse, noise)


@pytest.mark.parametrize(("name", "field"), TEXTS.items())
def test_every_optional_text_is_written_read_and_printed(name, field):
    """One row in the table is enough: file, JSON and the limits of a text follow from it."""
    draft = codec.parse(f"{HEAD}ttl: 7d\n{name}: run a\n---\nx").draft
    assert getattr(draft, field) == "run a"
    entry = admit(draft, None, Settings())
    assert getattr(entry, field) == codec.entry_json(entry)[field] == "run a"
    assert f"\n{name}: run a\n" in codec.render(entry)
    for text in ("a\0b", "\udfff"):
        with pytest.raises(InvalidEntry, match=f"the {name} holds"):
            check_form(draft._replace(**{field: text}))
