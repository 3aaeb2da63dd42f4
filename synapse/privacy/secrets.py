"""Secrets in texts: keys, passwords, tokens. They are found by patterns, and masked.

A masked text says of what kind the secret was, and nothing of its letters. Most texts hold no word
that goes with a secret: they cost one look for such words. Whoever writes a text to the disk calls
`mask`; `records` does it for the log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache

from synapse.privacy.words import Words, bytes_of, has, strings, words_of
from synapse.system.typed import Any, NamedTuple

MARK = "[secret: "
# A text without any of these words, and without a long one, holds no secret.
WORDS = frozenset(
    "pass password passwd passwort passphrase passcode pwd kennwort contraseña passe credential"
    " credentials secret secrets token key apikey bearer authorization accountkey sharedaccesskey"
    " accesskey secretkey privatekey accesstoken authtoken apitoken clientsecret sk rk gsk hf xai"
    " r8 pplx whsec npm pypi sg hvs dop shpat shpca shppa shpss glpat glptt gldt glrt glcbt glsoat"
    " ghp gho ghu ghs ghr github xoxb xoxp xoxa xoxe xoxr xoxs xoxo xapp hooks lin telegram bot"
    " twilio age gocspx".split()
)

# A name that says that what follows it is a secret.
_NAME = (
    r"(?:pass(?:word|wd|wort|phrase|code)?|pwd|kennwort|contraseña|mot de passe|credentials?"
    r"|(?:[\w-]*[_-])?(?:secret|passwd|password|pwd|passphrase)(?:[_-]?key|[_-]?access[_-]?key)?"
    r"|(?:[\w-]*[_-])?(?:api|access|private|account|auth|secret|signing|encryption|client|shared)"
    r"[_ -]?(?:access[_ -]?)?(?:key|secret|token)"
    r"|(?:[\w-]*[_-])?token)"
)
_ASSIGNED = (
    rf"(?<![\w-])[\"']?(?P<name>{_NAME})[\"']?"
    r"(?:\s*(?::=|=>|==?|:)\s*|\s+(?:is|ist|lautet|es|est)\s+:?\s*)"
    r"(?P<quote>[\"'`]?)(?P<value>[^\s\"'`]{6,512})(?P=quote)"
)
# A name of those, in small letters, before a sign or a word that assigns.
_FOLLOWED = (
    r"(?:pass|word|passwd|passwort|phrase|passcode|pwd|kennwort|contraseña|mot de passe"
    r"|credentials?|secret|key|token)[\"']*\s*(?:[:=]|\s(?:is|ist|lautet|es|est)\s)"
)
_SCHEME = "://"  # has a form only where a text has `@` too
_FORMS: tuple[tuple[str, str, str], ...] = (
    (
        "private key",
        "PRIVATE",
        r"(?s:-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?"
        r"(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z))",
    ),
    ("private key", "AGE-SECRET", r"\bAGE-SECRET-KEY-1[0-9A-Z]{50,}"),
    (
        "aws access key",
        "AKIA ASIA ABIA ACCA",
        r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}(?![A-Za-z0-9])",
    ),
    (
        "github token",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{22,})",
    ),
    (
        "gitlab token",
        "glpat- glptt- gldt- glrt- glcbt- glsoat-",
        r"(?<![A-Za-z0-9])gl(?:pat|ptt|dt|rt|cbt|soat)-[\w-]{20,}",
    ),
    (
        "slack token",
        "xox xapp-",
        r"(?<![A-Za-z0-9])xox[a-z](?:\.xox[a-z])?-[\w-]{10,}|(?<!\w)xapp-[\w-]{10,}",
    ),
    (
        "slack webhook",
        "hooks.slack",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/[\w/-]{12,}",
    ),
    ("anthropic key", "sk-ant-", r"(?<![A-Za-z0-9])sk-ant-[\w-]{16,}"),
    ("openai key", "sk-", r"(?<![A-Za-z0-9])sk-(?:proj|svcacct|admin|or|None)-[\w-]{16,}"),
    ("model provider key", "sk-", r"(?<![A-Za-z0-9-])sk-(?=\w*\d)[A-Za-z0-9]{20,}"),
    (
        "stripe key",
        "k_live_ k_test_ whsec_",
        r"(?<![A-Za-z0-9])(?:sk|rk)_(?:live|test)_\w{16,}|(?<!\w)whsec_[\w+/=]{16,}",
    ),
    ("google key", "AIza GOCSPX", r"(?<!\w)(?:AIza[\w-]{35}|GOCSPX-[\w-]{20,})"),
    (
        "model provider key",
        "gsk_ hf_ xai- r8_ pplx-",
        r"(?<!\w)(?:gsk_[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{30,}|xai-[A-Za-z0-9]{20,}"
        r"|r8_[A-Za-z0-9]{30,}|pplx-[A-Za-z0-9]{20,})",
    ),
    ("npm token", "npm_", r"(?<!\w)npm_[A-Za-z0-9]{36}"),
    ("pypi token", "pypi-A", r"(?<!\w)pypi-A[\w-]{40,}"),
    ("sendgrid key", "SG.", r"(?<!\w)SG\.[\w-]{16,}\.[\w-]{16,}"),
    ("twilio key", "SK AC", r"(?<!\w)(?:SK|AC)[0-9a-f]{32}(?!\w)"),
    ("telegram token", ":AA", r"(?<!\d)\d{8,10}:AA[\w-]{33}"),
    ("jwt", "eyJ", r"(?<!\w)eyJ[\w-]{8,}\.eyJ[\w-]{8,}(?:\.[\w-]*)?"),
    (
        "azure key",
        "Key= key=",
        r"(?i:AccountKey|SharedAccessKey)=(?P<azure>[A-Za-z0-9+/]{40,}={0,2})",
    ),
    (
        "access token",
        "hvs. dop_v1_ shpat_ shpca_ shppa_ shpss_ dapi ATATT3 lin_api_",
        r"(?<!\w)(?:hvs\.[\w-]{20,}|dop_v1_[0-9a-f]{40,}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"
        r"|dapi[0-9a-f]{32}|ATATT3[\w=-]{30,}|lin_api_[A-Za-z0-9]{30,})",
    ),
    (
        "password in an address",
        _SCHEME,
        r"(?<!\w)[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s:/@\"'`<>{}$]*:"
        r"(?P<url>[^\s@\"'`<>{}$/]+(?:/[^\s@\"'`<>{}$/]*)?)@(?=[\w\[])",
    ),
    (
        "bearer token",
        "earer EARER uthorization",
        r"(?i:(?<!\w)(?:bearer|authorization:\s*(?:basic|token))\s+)"
        r"(?P<bearer>(?=[^\s]*\d)[A-Za-z0-9._~+/-]{16,}=*)",
    ),
)
_NAMED = frozenset(
    "pass password passwd passwort passphrase passcode pwd kennwort contraseña passe credential"
    " credentials secret secrets token key apikey accesskey secretkey privatekey accesstoken"
    " authtoken apitoken clientsecret".split()
)
# What stands in the place of a secret in texts that show how to give one.
_PLACEHOLDER = (
    r"(?i:.*(?:example|placeholder|changeme|change_me|redacted|dummy|your[_-]|_here\b|xxxx|\*\*\*"
    r"|\.\.\.|…).*|[<\[{($%&*@#/\\|].*|(?:none|null|true|false|required|optional|str|string|bytes)"
    r"\b.*|x+|-+)"
)
_CODE = r"[A-Za-z_][\w.-]*(?:[\[(,;:)\]}].*)?|[A-Za-z]*[(\[].*|[\w.]+\(.*"
_WORDS = frozenset(("token", "credential", "credentials"))
# A run of letters and digits in which a library may know a key that has no form above.
_RUN = r"[\w+/=-]{20,}"

Span = tuple[int, int, str]


def hinted(text: str, words: Words) -> bool:
    """Return whether a text with these words may hold a secret: a cheap look."""
    small = words.small
    return (
        words.long
        or not WORDS.isdisjoint(words.each)
        or ("@" in text and _SCHEME in text)
        or "password" in small
        or "secret" in small
        or "aiza" in small  # such a key may hold signs between its letters
    )


def mask(text: str) -> str:
    """Return the text with every secret in it replaced by its kind."""
    words = words_of(text)
    return _replaced(text, found(text, words)) if hinted(text, words) else text


def found(text: str, words: Words | None = None) -> list[Span]:
    """Return where the secrets of a text begin and end, and of what kind they are, in order."""
    raw = bytes_of(text)
    spans = [*_formed(text)] if _may_be_formed(text, raw) else []
    for match in _assignments(text, words or words_of(text)):
        kind, value = _assigned_kind(match["name"]), match["value"].rstrip(",;.)]}")
        if _is_secret(value, match["name"], bool(match["quote"])):
            start = match.start("value")
            spans.append((start, start + len(value), kind))
    if _LONGER.row in raw.translate(_LONGER.classes):
        spans += _known_elsewhere(text)
    if not spans:
        return spans
    marks = (MARK, "secret: ")  # of what was masked before
    return apart([span for span in spans if not text.startswith(marks, span[0])])


def mask_deep(value: Any) -> Any:
    """Return JSON with every secret in its texts masked; what holds none is the same object."""
    text = "\n".join(strings(value))  # most hold none: one look at all of them says so
    words = words_of(text)
    if not hinted(text, words) or not (found(text, words) or _names_a_secret(value)):
        return value
    return _masked(value)


def _masked(value: Any, name: str = "") -> Any:
    if isinstance(value, str):
        masked = mask(value)
        if masked == value and _is_secret_by_name(name, value):
            return value if value.startswith(MARK) else _mark(_assigned_kind(name))
        return masked
    if isinstance(value, dict):
        result: Any = {mask(key): _masked(item, key) for key, item in value.items()}
        return value if result == value else result
    if isinstance(value, list | tuple):
        items = [_masked(item) for item in value]
        return value if items == list(value) else type(value)(items)
    return value


def _is_secret_by_name(name: str, value: Any) -> bool:
    """Return whether a text is a secret because of the name that it stands under."""
    return isinstance(value, str) and len(value) >= 6 and name != "" and _is_named(name)


def _names_a_secret(value: Any) -> bool:
    """Return whether a name anywhere in a value tells that what stands under it is a secret."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if any(_is_secret_by_name(name, inner) for name, inner in item.items()):
                return True
            waiting += item.values()
        elif isinstance(item, list | tuple):
            waiting += item
    return False


def mask_json(text: str) -> str:
    """Return a text of JSON, or lines of it, masked: what is no JSON is masked as a text."""
    if not hinted(text, words_of(text)):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return mask(text)
    result = mask_deep(value)
    if result is value:
        return text
    for plain, masked in _changes(value, result):
        for dumped in (json.dumps(plain), json.dumps(plain, ensure_ascii=False)):
            text = text.replace(dumped, json.dumps(masked, ensure_ascii=False))
    return text


def mask_lines(text: str) -> str:
    """Return a text masked of which every line may be JSON."""
    if not hinted(text, words_of(text)):
        return text
    return mask("".join(map(mask_json, text.splitlines(keepends=True))))


def kinds_in(text: str) -> list[str]:
    """Return the kinds of secret that a text names as masked, each once."""
    marks = re.findall(r"\[secret: ([a-z ]+)\]", text) if MARK in text else ()
    return list(dict.fromkeys(marks))


def _changes(value: Any, masked: Any) -> Iterator[tuple[str, str]]:
    """Yield each text that was masked, with what it became."""
    if isinstance(value, dict) and isinstance(masked, dict):
        for key, masked_item in zip(value, masked, strict=True):
            if key != masked_item:
                yield key, masked_item
            yield from _changes(value[key], masked[masked_item])
    elif isinstance(value, list):
        for item, masked_item in zip(value, masked, strict=True):
            yield from _changes(item, masked_item)
    elif value != masked:
        yield value, masked


class Row(NamedTuple):
    """So many characters of some in a row, and the classes of bytes by which one is found."""

    row: bytes
    classes: bytes


def _row(others: str, least: int) -> Row:
    """Return a row of letters, digits and these characters, so long."""
    codes = (
        120 if code > 127 or chr(code).isalnum() or chr(code) in others else 32
        for code in range(256)
    )
    return Row(b"x" * least, bytes(codes))


compiled = cache(re.compile)
_SPLIT = tuple((kind, tuple(signs.split(" ")), form) for kind, signs, form in _FORMS)
# A text without any of these, and without `_LONG` of these characters in a row, holds no form.
_SIGNS = "PRIVATE eyJ hooks.slack Key= key= earer EARER uthorization".split()
_LONG = _row("_+=~-", 15)
# What a library may know has so many of these, or more; the same, with all else as spaces.
_LONGER = _row("_+/=-", 20)
_PARTS = bytes(code if each == 120 else 32 for code, each in enumerate(_LONGER.classes))


def _may_be_formed(text: str, raw: bytes) -> bool:
    """Return whether a secret in a text with these bytes may be known by its form."""
    return (
        _LONG.row in raw.translate(_LONG.classes)
        or (_SCHEME in text and "@" in text)
        or has(text, _SIGNS)
    )


def _formed(text: str) -> Iterator[Span]:
    """Yield what is known by its form."""
    for kind, signs, form in _SPLIT:
        if has(text, signs):
            for match in compiled(form).finditer(text):
                group = match.lastgroup or 0
                yield match.start(group), match.end(group), kind


def _is_named(name: str) -> bool:
    return re.fullmatch(_NAME, name, re.IGNORECASE) is not None and not _is_count(name)


def _is_count(name: str) -> bool:
    """Return whether a name may as well be that of a number or a word of a language."""
    return name.lower() in _WORDS or name.lower() in ("pass", "secret")


def _is_secret(value: str, name: str, quoted: bool) -> bool:
    """Return whether what a name is given is a secret, and not code or an example of one."""
    if len(value) < 6:
        return False
    if re.fullmatch(_RUN, value) and _is_mixed(value):
        return True
    if re.fullmatch(_PLACEHOLDER, value):
        return False
    has_digit = any(char.isdigit() for char in value)
    if _is_count(name) or name.lower().endswith("token"):
        return (
            has_digit
            and len(value) >= 16
            and any(char.isalpha() for char in value)
            and re.fullmatch(r"[\w+/=.~-]+", value) is not None
        )
    if quoted:
        return True
    if re.fullmatch(_CODE, value):
        return has_digit and re.fullmatch(r"[A-Za-z0-9]{6,}|[\w-]{8,}", value) is not None
    return has_digit or any(char in "!@#$%^&*?+~" for char in value)


def _assigned_kind(name: str) -> str:
    small = name.lower()
    if "token" in small:
        return "token"
    return "password" if "pass" in small or "pwd" in small else "key"


def _known_elsewhere(text: str) -> Iterator[Span]:
    """Yield what a library knows as a secret, which is imported where a text may hold one."""
    if text.isascii():
        parts = bytes_of(text).translate(_PARTS).decode().split()
        parts = [part for part in parts if len(part) >= 20]
    else:
        parts = compiled(_RUN).findall(text)
    if not any(map(_is_mixed, parts)):
        return
    for kind, find in _library():
        for line in text.splitlines():
            for secret in find(line):
                if secret and len(secret) >= 12:
                    start = text.find(secret)
                    while start >= 0:
                        yield start, start + len(secret), kind
                        start = text.find(secret, start + len(secret))


def _is_mixed(run: str) -> bool:
    return any(map(str.isdigit, run)) and any(map(str.islower, run)) and any(map(str.isupper, run))


def _assignments(text: str, words: Words) -> Iterator[re.Match[str]]:
    small = words.small
    suspect = not _NAMED.isdisjoint(words.each)
    suspect = suspect or "password" in small or "secret" in small
    if suspect and compiled(_FOLLOWED).search(small):
        pattern = compiled(_ASSIGNED, re.IGNORECASE)
        match = pattern.search(text)
        while match:  # what one is given may itself be the next: `the secret:`, then `key=...`
            yield match
            match = pattern.search(text, match.start("value"))


@cache
def _library() -> list[tuple[str, Callable[[str], Any]]]:
    """Return what finds the keys of services: no entropy, no words, and nothing is looked up."""
    from importlib import import_module

    names = {
        "artifactory": "ArtifactoryDetector",
        "azure_storage_key": "AzureStorageKeyDetector",
        "cloudant": "CloudantDetector",
        "discord": "DiscordBotTokenDetector",
        "ibm_cloud_iam": "IbmCloudIamDetector",
        "ibm_cos_hmac": "IbmCosHmacDetector",
        "mailchimp": "MailchimpDetector",
        "softlayer": "SoftlayerDetector",
        "square_oauth": "SquareOAuthDetector",
    }
    patterns: list[tuple[str, Callable[[str], Any]]] = []
    for module, name in names.items():
        try:
            detector = getattr(import_module(f"detect_secrets.plugins.{module}"), name)
        except (ImportError, AttributeError):
            continue  # the forms above do without it
        patterns.append((f"{module.split('_')[0]} key", detector().analyze_string))
    return patterns


def apart(spans: list[Span]) -> list[Span]:
    """Return the spans in order, those that overlap as one, of the kind that begins first."""
    apart: list[Span] = []
    for start, end, kind in sorted(spans, key=lambda span: (span[0], -span[1])):
        if apart and start < apart[-1][1]:
            first = apart[-1]
            apart[-1] = (first[0], max(end, first[1]), first[2])
        elif end > start:
            apart.append((start, end, kind))
    return apart


def _mark(kind: str) -> str:
    return f"{MARK}{kind}]"


def _replaced(text: str, spans: list[Span]) -> str:
    parts: list[str] = []
    at = 0
    for start, end, kind in spans:
        parts += text[at:start], _mark(kind)
        at = end
    return "".join([*parts, text[at:]])
