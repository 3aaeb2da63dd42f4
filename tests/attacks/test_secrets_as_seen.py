"""Secrets as terminals, command lines and configuration show them: in colours, with characters
that nobody sees between their letters, behind the option of a program. Each is masked, and in a
time that grows with the text alone.
"""

import json
import random
import re
import time
from pathlib import Path

import pytest

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.scripted import Move, Scripted
from synapse.errors import InvalidEntry, SynapseError
from synapse.model.agents import Agent
from synapse.privacy import invisible, known_forms, secrets
from synapse.privacy.secret_forms import FORMS
from tests.privacy.made import plain_in
from tests.privacy.made import secrets as made

ROOT = Path(__file__).parents[2]
HEX = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
MIXED = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6kL9nP2rS5tV8xY1aD4fG7iM0oQ3uX6wZ9bE2cH5jK8mN1pR4sU7vY0zA3dG6iL9"
COLOURS = (
    "\x1b[32m{}\x1b[0m",
    "\x1b[1;38;5;208m{}\x1b[0m",
    "\x1b[38:2::255:100:0m{}\x1b[m",
    "\x9b31m{}\x9b0m",
    "\x1b]8;;https://api.internal\x07{}\x1b]8;;\x07",
    "\x1b]8;;https://api.internal\x1b\\{}\x1b]8;;\x1b\\",
    "\x1b(B\x1b[m{}\x1b(B\x1b[m",
    "\\x1b[32m{}\\x1b[0m",
    "\\u001b[32m{}\\u001b[0m",
    "\\033[1;31m{}\\033[0m",
    "^[[32m{}^[[0m",
    "[32m{}[0m",
)
UNSEEN = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u200e\u202a\u2066\u180e\U000e0041"

PRACTICE = {
    "curl": ("curl -u admin:{} https://api.internal", "hunter2"),
    "curl, glued": ("curl -sS -uadmin:{} https://api.internal", "s3same"),
    "curl --user": ("curl -X POST --user 'deploy:{}' https://api.internal/v1", "Kx9!fooB"),
    "mysql": ("mysql -h db.internal -u root -p{} shop", "hunter2"),
    "mysqldump": ("mysqldump -uroot -p'{}' shop > dump.sql", "tr0ub4dor"),
    "mysql --password": ("mysql --user=root --password={} shop", "tr0ub4dor"),
    "sshpass": ("sshpass -p {} ssh deploy@build-7", "hunter2"),
    "sshpass, quoted": ("sshpass -p '{}' scp a deploy@build-7:", "open sesame"),
    "docker": ('{{"auths": {{"registry.internal": {{"auth": "{}"}}}}}}', "YWRtaW46aHVudGVyMg=="),
    "netrc": ("machine api.internal login deploy password {}", "swordfish"),
    "pgpass": ("db.internal:5432:shop:app:{}", "swordfish"),
    "pgpass, named": ("~/.pgpass has *:*:*:app:{}", "sw0rdfish"),
    "s3": (
        "https://b.s3.amazonaws.com/k?X-Amz-Date=20260101T000000Z&X-Amz-Signature={}",
        HEX + HEX,
    ),
    "s3, token": ("GET /k?X-Amz-Security-Token={}&X-Amz-Expires=300", MIXED),
    "gcs": ("https://storage.googleapis.com/b/k?X-Goog-Signature={}", HEX * 4),
    "sas": (
        "https://a.blob.core.windows.net/c/f?sv=2022-11-02&sr=b&sp=r&sig={}",
        "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6kL9nP2r%3D",
    ),
    "pw": ("the staging box takes pw {}", "hunter2x"),
    "pw, colon": ("user admin, pw: {}", "hunter2x"),
    "password, bare": ("log in as admin with password {}", "Tr0ub4dor&3"),
    "is": ("the password is {}", "hunter2x"),
    "is, quoted": ("The password is 'swordfish'{}", "swordfish"),
    "option": ("redis-cli --pass {} ping", "Tr0ub4dor3"),
    "notion": ("use {} for the wiki", "ntn_12345678901" + MIXED[:35]),
    "notion, old": ("use {} for the wiki", "secret_" + MIXED[:43]),
    "sentry": ("sentry-cli takes {}", "sntryu_" + HEX + HEX),
    "sentry, org": ("sentry-cli takes {}", "sntrys_eyJpYXQiOjE3" + MIXED),
    "figma": ("figma: {}", "figd_" + MIXED[:40]),
    "doppler": ("doppler run with {}", "dp.pt." + MIXED[:43]),
    "doppler, service": ("doppler run with {}", "dp.st.prd." + MIXED[:43]),
    "fly": ("fly deploy with {}", "fo1_" + MIXED[:43]),
    "fly, macaroon": ("FLY: {}", "fm2_" + MIXED + MIXED[:20]),
    "mailgun": ("mailgun says {}", "key-" + HEX),
    "mailchimp": ("the list is at {}", HEX + "-us14"),
    "planetscale": ("{} is for the branch", "pscale_tkn_" + MIXED[:43]),
    "postman": ("{}", "PMAK-" + HEX[:24] + "-" + HEX + "ab"),
    "pulumi": ("{}", "pul-" + HEX + "01234567"),
    "grafana": ("{}", "glsa_" + MIXED[:32] + "_0a1b2c3d"),
    "discord": ("DISCORD_TOKEN={}", HEX + HEX),
    "datadog": ("datadog_api_key: {}", HEX + "01234567"),
    "vault": ("vault login {}", "hvs." + MIXED),
    "openssl": (
        "{}",
        "AGE-SECRET-KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7LQPZRY9X8GF2TVDW0S3JN54KHCE",
    ),
}


@pytest.mark.parametrize("form", COLOURS)
def test_a_coloured_secret_is_masked(form):
    for _, text, secret in made(220, 7):
        if "\n" in secret:
            continue
        shown = text.replace(secret, form.format(secret))
        masked = secrets.mask(shown)
        assert secret[-6:] not in masked, shown
        assert secrets.mask(masked) == masked
    text = f"step 1\n{form.format('ghp_' + 'aB3' * 12)}, then go on"
    assert secrets.mask(text).endswith(", then go on")


@pytest.mark.parametrize("sign", UNSEEN)
def test_a_secret_with_unseen_characters_is_masked(sign):
    draw = random.Random(ord(sign))
    for _, text, secret in made(220, 7):
        if "\n" in secret:
            continue
        at = sorted(draw.sample(range(len(secret) + 1), 3))
        veiled = sign.join((secret[: at[0]], secret[at[0] : at[1]], secret[at[1] :]))
        masked = secrets.mask(text.replace(secret, veiled))
        assert secret not in invisible.without(masked).text, (text, veiled)


@pytest.mark.parametrize("name", PRACTICE)
def test_what_people_paste_is_masked(name):
    form, secret = PRACTICE[name]
    text = form.format("" if secret in form else secret)
    for shown in (text, f"$ {text}\nit works", f"I ran `{text}`.", f"first\n\n  {text}\n"):
        masked = secrets.mask(shown)
        assert secret not in masked, shown
        assert "[secret: " in masked
        assert secrets.mask(masked) == masked
    assert secret not in json.dumps(secrets.mask_deep({"out": [text]}))


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[32mpassed\x1b[0m 12 tests in \x1b[1m3.2 s\x1b[0m",
        "curl -u $USER:$PASSWORD https://api.internal; curl -u user:password",
        "docker run -u 1000:1000 alpine curl https://api.internal",
        "mysql -h db.internal -P 3306 -p shop; mkdir -p build/out",
        "login and password fields; the login page asks for a password twice",
        "synapse/log/commit.py:5432:12:error:message, 10:20:30:40:50",
        '{"auth": "required"}, "auth": "aGVsbG8gd29ybGQ="',
        "the password is hashed, a password reset, password managers, pw is short for it",
        "--token TOKEN, --password-stdin, --password PASSWORD, --api-key KEY",
        "the sig= parameter, ?sig=..., X-Amz-Signature is the last one",
        "linear: a2, dropbox = sharedfolderxyz, sentry is down, heroku > fly",
        "commit 0a1b2c3d4e5f60718293a4b5c6d7e8f901234567 of sourcegraph",
    ],
)
def test_what_only_looks_so_stays(text):
    assert secrets.mask(text) == text


def test_nothing_of_ordinary_paragraphs_is_masked():
    total, wrong = 0, []
    for folder in ("docs", "synapse", "orchestrator", "scenarios", "prompts"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".md", ".j2", ".py") and "privacy" not in str(path):
                for part in re.split(r"\n\s*\n", path.read_text()):
                    total += len(part) > 20
                    masked = secrets.mask(part)
                    wrong += [(path.name, part)] if masked != part else []
    assert total > 5_000
    assert {name for name, _ in wrong} <= {"secrets.md"}  # shows one


def test_a_coloured_result_of_a_tool_leaves_no_byte(tmp_path):
    keys = [secret for _, text, secret in made(60, 5) if "\n" not in secret]
    lines = "\n".join(f"\x1b[32m{key}\x1b[0m" for key in keys)
    with synapse.init(str(tmp_path / "ws")) as memory:
        memory.register(Agent("eng-a", "engineer", read=("*",), write=("*",)))
        moves = iter([Move("I look.", [("look", {})])])
        known = [key for key in keys if secrets.mask(key) != key]

        def look() -> str:
            return lines

        engine = Scripted(lambda seen: next(moves, "Done with it."))
        with Supervisor(memory, engine=engine, tools=[look]) as supervisor:
            supervisor.run(Task("Look", "eng-a"))
        memory.as_agent("eng-a").append(lines, "api/keys")
        assert len(known) > 30
        assert plain_in(memory.store.root, known) == set()


# -- names -----------------------------------------------------------------------------------------

TOKEN = "ghp_" + "aB3" * 12
HEAD = "from: eng-a\ntimestamp: 2026-02-01T01:00:00Z\npriority: info\n"


@pytest.fixture
def memory(tmp_path):
    with synapse.init(str(tmp_path / "ws")) as memory:
        memory.register(Agent("eng-a", "engineer", read=("*",), write=("*",)))
        yield memory


def _names_and_bytes(root, text):
    names = {str(path) for path in Path(root).rglob("*") if text in str(path.relative_to(root))}
    return names | plain_in(root, [text])


def test_keys_of_once_are_told_apart_and_not_kept(memory):
    me, other = memory.as_agent("eng-a"), "dC4" * 12
    first = me.append("one", "api/x", once=f"deploy {TOKEN}")
    assert me.append("one", "api/x", once=f"deploy {TOKEN}").id == first.id
    assert me.append("two", "api/x", once=f"deploy ghp_{other}").id != first.id
    assert _names_and_bytes(memory.store.root, TOKEN) == set()


def test_a_secret_in_the_name_of_a_file_goes(memory):
    root = Path(memory.store.root)
    (root / "entries/api").mkdir()
    (root / f"entries/api/use-{TOKEN}.md").write_text(f"---\n{HEAD}---\nthe body stays")
    (root / f"entries/api/bad-{TOKEN}.md").write_text("---\nfrom: no!\n---\nx")
    end = time.monotonic() + 20
    while not [*(root / "quarantine").iterdir()] and time.monotonic() < end:
        time.sleep(0.05)
        memory.store.refresh(whole=True)
    (entry,) = memory.as_agent("eng-a").read(namespace="api/*")
    assert entry.body == "the body stays"
    assert memory.verify().ok
    assert _names_and_bytes(root, TOKEN) == set()


def test_a_display_name_is_masked_and_an_id_refused(memory):
    memory.register(Agent("eng-b", "engineer", name=f"Bee {TOKEN}"))
    assert memory.store.agents.all()["eng-b"].name == "Bee [secret: github token]"
    with pytest.raises(InvalidEntry, match="id of an agent holds a secret"):
        memory.register(Agent("pul-" + HEX + "01234567", "engineer"))
    assert _names_and_bytes(memory.store.root, TOKEN) == set()


def test_names_that_agents_choose(memory):
    me = memory.as_agent("eng-a")
    for act in (
        lambda: me.claim(f"deploy-{TOKEN}"),
        lambda: me.append("x", "api/x", id=f"syn-{TOKEN}"),
        lambda: me.append("x", f"api/{TOKEN.lower()}"),
        lambda: me.append("x", "api/x", to=f"agent:{TOKEN}"),
    ):
        try:
            act()
        except (SynapseError, TypeError):
            pass
    assert _names_and_bytes(memory.store.root, TOKEN) == set()


# -- time ------------------------------------------------------------------------------------------


def _pieces():
    yield from (
        "a",
        "-",
        "_",
        ".",
        ":",
        " ",
        "\n",
        "=",
        "0",
        "a0",
        "A0a",
        "\\",
        '"',
        "\x1b[",
        "\x1b]8;;",
        "\u200b",
    )
    yield from (
        "-p",
        " -u a:",
        "mysql -",
        "curl ",
        "sshpass -p",
        "machine a login b ",
        "a:5432:",
        "password ",
    )
    yield from (
        "-----BEGIN PRIVATE KEY-----",
        "eyJaaaaaaaa.",
        "://a:",
        "Bearer ",
        "token=",
        "[32m",
        "&sig=",
        '"auth":"',
    )
    for rule in known_forms.rules():
        yield from rule.keywords


def test_the_time_grows_with_the_text_alone():
    assert _slow(dict.fromkeys(_pieces())) == []


def _slow(pieces):
    """Return the texts of which four times as much takes over ten times as long: what is linear
    takes four, what is quadratic sixteen.
    """
    slow = []
    for piece in pieces:
        for text in (piece, f"{piece} ", f"{piece}=", f"{piece}\n"):
            long = [text * (size // len(text)) for size in (4_000, 16_000, 64_000)]
            spent = [min(_cost(each) for _ in range(2)) for each in long[:2]]
            if spent[1] > 0.02 and spent[1] > 8 * spent[0] and _cost(long[2]) > 8 * spent[1]:
                slow.append((text, spent))
    return slow


def _cost(text):
    start = time.process_time()
    secrets.mask(text)
    return time.process_time() - start


# -- the checks themselves -------------------------------------------------------------------------


def _coloured_and_plain():
    texts = [
        (form.format(secret), secret)
        for form in COLOURS
        for _, _, secret in made(44, 7)
        if secrets.mask(secret) != secret and "\n" not in secret
    ]
    return [text for text, secret in texts if secret[-6:] in secrets.mask(text)]


def test_a_look_at_what_stands_there_alone_is_found_out(monkeypatch):
    assert _coloured_and_plain() == []
    monkeypatch.setattr(invisible, "holds_some", lambda text: False)
    assert len(_coloured_and_plain()) > 100


def test_a_place_that_is_not_mapped_back_is_found_out(monkeypatch):
    monkeypatch.setattr(invisible.Part, "place", lambda self, start, end: (start, end))
    monkeypatch.setattr(invisible, "blanked", lambda text: "")
    assert len(_coloured_and_plain()) > 100


def test_a_quadratic_form_is_found_out(monkeypatch):
    rule = known_forms.Rule("wrong", ("mysql",), r"mysql[^\n]*-p\S+")
    monkeypatch.setattr(known_forms, "chosen", lambda table, words: [rule])
    # a busy machine may hide one of them
    found = {text for text, _ in _slow(["mysql -"])}
    assert found
    assert found <= {"mysql -", "mysql - ", "mysql -="}


def test_without_the_public_list_services_are_missed(monkeypatch):
    monkeypatch.setattr(secrets, "_table", lambda: known_forms.by_word(secrets._rules(FORMS)))
    missed = {name for name, (form, x) in PRACTICE.items() if x in secrets.mask(form.format(x))}
    assert missed >= {"planetscale", "postman", "pulumi", "grafana"}
