"""Personal data in texts: found by patterns with checks, and named by kind, never repeated.

`checked` is asked before a text is stored. What only looks like personal data (addresses of robots,
examples, versions, digests, ids) is not meant. A workspace says in synapse.yaml what is done with
what is found (`privacy: personal:`), and adds globs of its own (`patterns:`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from operator import attrgetter

from synapse.errors import InvalidEntry, PersonalData
from synapse.model.entry import Draft, Entry, parse_ttl
from synapse.model.entry_fields import FREE
from synapse.model.kinds import frozen
from synapse.model.settings import Settings
from synapse.privacy import secrets
from synapse.privacy.personal_forms import CARD, FORMS, Form
from synapse.privacy.secrets import apart, compiled
from synapse.privacy.words import Harmless, Words, bytes_of, each_text, has, strings, words_of
from synapse.system.typed import Any

MARK = "[personal data: "
_DEFAULTS = Settings()
_SPACES = dict.fromkeys(map(ord, "\u00a0\u2007\u2009\u202f"), " ")
SHORT_TTL, LONGEST_TTL = "24h", "7d"
# A text with none of these words, no `@` and no long run of digits holds no personal data.
WORDS = frozenset(
    "phone tel telephone mobile cell fax handy telefon telefonnummer mobil teléfono móvil téléphone"
    " portable whatsapp call ring passport passeport reisepass pasaporte passaporto personalausweis"
    " ausweis license licence führerschein ssn nino dni nie nif cpf pesel bsn aadhaar tin steuer"
    " steuernummer steueridentifikationsnummer social insurance sozialversicherungsnummer"
    " sozialversicherung national fiscale fiscal tax id born birth dob birthday birthdate geboren"
    " geburtsdatum geburtstag née né naissance nacimiento nacida nacido nascita salary gehalt"
    " salaire sueldo salario stipendio earns verdient wage income compensation diagnosed diagnosis"
    " diagnose diagnostiziert suffers leidet allergic patient patientin prescribed medication"
    " souffre diagnostiqué diagnostiquée padece diagnosticado diagnosticada treated treatment"
    " tested reisepassnummer ausweisnummer personalausweisnummer führerscheinnummer kontonummer"
    " jahresgehalt account konto routing iban ip street avenue road lane drive boulevard"
    " court way square rue calle avenida plaza via allee".split()
)
_RUN = r"[0-9][0-9 ().\-/]{6,}[0-9]"
_RUNS = bytes(114 if chr(code) in "0123456789 ().-/" else 32 for code in range(256))
_LONG_RUN = b"r" * 8
_DIGITS = bytes(48 if 48 <= code <= 57 else 32 for code in range(256))
_SHAPE = bytes(48 if 48 <= code <= 57 else 65 if 65 <= code <= 90 else code for code in range(256))
# The words by which an illness is noticed, also those that are not of ASCII.
_ILL = frozenset(("diagnostiqué", "diagnostiquée")).union(
    *(form.words for form in FORMS if form.kind == "health")
)
_ROBOTS = frozenset(
    "noreply no-reply donotreply do-not-reply git user users root admin administrator info support"
    " security hello contact team dev devs help sales press legal abuse postmaster webmaster"
    " hostmaster mailer-daemon bot ci build builds deploy test tests example you me name someone"
    " somebody username email mail person alice bob a b x y u foo bar nobody operator service"
    " api docs python-dev distutils-sig privacy conduct maintainers feedback ops oncall".split()
)
_EXAMPLES = (
    r"(?:.*\.)?(?:example|test|invalid|localhost|local|internal|lan)(?:\.(?:com|org|net|edu|de))?"
    r"|.*\.?(?:noreply\.github\.com|domain\.(?:com|tld)|company\.com|host\.com|host|bots\.\w+)"
)
_NOT_TLD = frozenset(
    "png jpg jpeg gif svg webp py js ts css html json yaml yml toml md txt sh service socket timer"
    " target mount so dll exe zip gz tar whl rs go c h cpp java rb local lock log conf cfg ini xml"
    " sql db csv pdf".split()
)


def kinds_in(text: str, patterns: Mapping[str, str] = {}, words: Words | None = None) -> list[str]:
    """Return the kinds of personal data in a text, each once."""
    return list(dict.fromkeys(kind for kind, _, _ in found(text, patterns, words)))


def found(
    text: str, patterns: Mapping[str, str] = {}, words: Words | None = None
) -> Iterator[tuple[str, int, int]]:
    """Yield the kind and the place of each piece of personal data in a text."""
    text, words = _spaced(text, words or words_of(text))
    if hinted(text, words):
        for form in _possible(text, words):
            check = _CHECKS.get(form.kind)
            for match in _matches(form, text, words.small):
                if check is None or check(match["value"]):
                    yield form.kind, *match.span("value")
    for kind, glob in patterns.items():
        for match in compiled(_of_glob(glob)).finditer(text):
            yield kind, *match.span()


def _possible(text: str, words: Words) -> Iterator[Form]:
    """Yield the forms that a text may hold, by what it has of digits, shapes and words."""
    raw = bytes_of(text)
    shape = raw.translate(_SHAPE).decode("latin-1")
    digits = shape.count("0")
    if digits >= len(CARD):  # a row of them may have spaces in it
        shape += "\n" + raw.translate(_SHAPE, b" -").decode("latin-1")
    shape += "\n" + raw.translate(_RUNS).decode()
    plain = text.isascii()  # elsewhere words do not end where a pattern sees their end
    for form in FORMS:
        if (
            digits >= form.digits
            and (not form.shapes or has(shape, form.shapes))
            and not (plain and form.words and form.words.isdisjoint(words.each))
        ):
            yield form


def _matches(form: Form, text: str, small: str) -> Iterator[re.Match[str]]:
    """Yield where a form matches: tried where one of its words stands, or everywhere where it has
    none.
    """
    if not form.starts or len(small) != len(text):
        yield from compiled(form.pattern).finditer(text)
        return
    if not text.isascii():  # letters that a pattern takes for small ones
        small = small.replace("ı", "i").replace("ſ", "s")
    end = 0
    for start in sorted(_places(small, form.starts)):
        match = compiled(form.pattern).match(text, start) if start >= end else None
        if match is not None:
            yield match
            end = match.end()


def _places(small: str, words: tuple[str, ...]) -> set[int]:
    """Return where one of these words begins in a text in small letters."""
    places: set[int] = set()
    for word in words:
        at = small.find(word)
        while at >= 0:
            places.add(at)
            at = small.find(word, at + 1)
    return places


def hinted(text: str, words: Words) -> bool:
    """Return whether a text with these words may hold personal data: a cheap look. Without a digit
    it may hold an e-mail address or an illness, nothing else.
    """
    text, words = _spaced(text, words)
    if "@" in text or not _ILL.isdisjoint(words.each):
        return True
    raw = bytes_of(text)
    if b"0" not in raw.translate(_DIGITS):
        return False
    return (
        not WORDS.isdisjoint(words.each)
        # a long run of digits and of what stands between them
        or (_LONG_RUN in raw.translate(_RUNS) and bool(compiled(_RUN).search(text)))
        or "straße" in words.small
    )


def concealed(text: str, patterns: Mapping[str, str] = {}) -> str:
    """Return the text with the kinds of personal data in its place. Once is enough: what it was
    made of does not change it again.
    """
    while spans := [
        (start, end, kind)
        for kind, start, end in found(text, patterns)
        if not any(mark.start() < end and start < mark.end() for mark in _marks(text))
    ]:
        for start, end, kind in reversed(apart(spans)):
            text = f"{text[:start]}{MARK}{kind}]{text[end:]}"
    return text


def kept(text: str, settings: Settings) -> str:
    """Return what a machine says as the workspace keeps it: nobody is there to rephrase it."""
    return text if settings.personal == "off" else concealed(text, settings.patterns)


def _marks(text: str) -> Iterator[re.Match[str]]:
    return compiled(r"\[personal data: [^\]\n]{1,80}\]").finditer(text)


def _spaced(text: str, words: Words) -> tuple[str, Words]:
    """Return a text with plain spaces for those that break no line, and its words."""
    if text.isascii() or (spaced := text.translate(_SPACES)) == text:
        return text, words
    return spaced, words_of(spaced)


def refuse(texts: Iterable[tuple[str, str]], patterns: Mapping[str, str] = {}) -> None:
    """Raise PersonalData where one of these texts, each with what it is, holds any: it names the
    kinds and the places, never the text.
    """
    findings = [(kind, name) for name, text in texts for kind in kinds_in(text, patterns)]
    if findings:
        listing = ", ".join(f"{kind} in {name}" for kind, name in dict.fromkeys(findings))
        raise PersonalData(
            f"this holds personal data ({listing}): nothing was stored. Leave it out and say where"
            " it is kept, or write of a role instead of a person. Only the body of an entry with"
            " scope: encrypted may hold it, for 24h, at most 7d",
            kinds=list(dict.fromkeys(kind for kind, _ in findings)),
        )


def checked(draft: Draft, settings: Settings = _DEFAULTS) -> Draft:
    """Return the draft as it may be stored, the one place that decides it. Personal data (marked or
    found) stands only in an encrypted body, with a short time to live; elsewhere what is found is
    masked, refused with PersonalData, or left, as the settings say. A topic is refused in place of
    masked, since two would become one. The body is `Harmless` where no text of the draft holds a
    secret either.
    """
    patterns = settings.patterns
    texts = [draft.body]
    if any(_beside(draft)):
        texts = [text for _, text in texts_of(draft)]
    joined = "\n".join(texts)
    words = words_of(joined)
    looks = settings.personal != "off" and (patterns or hinted(joined, words))
    persons = looks and any(
        kinds_in(text, patterns, words if text == joined else None) for text in texts
    )
    if persons:
        draft = _without(draft, settings)
    if not persons and not (secrets.hinted(joined, words) and secrets.found(joined, words)):
        draft = draft._replace(body=Harmless(draft.body))
    if draft.scope == "encrypted" and (persons or draft.pii):
        return draft._replace(ttl=short_ttl(draft.ttl))
    return draft


def _without(draft: Draft, settings: Settings) -> Draft:
    """Return a draft with its personal data masked, or refuse it. Beside an encrypted body it is
    refused: its author knew of it.
    """
    sealed, patterns = draft.scope == "encrypted", settings.patterns
    if sealed or settings.personal == "refuse":
        refuse([*texts_of(draft)][sealed:], patterns)
        return draft
    refuse([("the field topic", draft.topic or "")], patterns)
    masked: Draft = changed(draft, partial(concealed, patterns=patterns))
    return masked


def changed(item: Any, change: Callable[[str], str]) -> Any:
    """Return a draft or an entry with each of its texts changed."""
    texts: Any = {
        name: text and change(text)
        for name in ("body", *FREE)
        if (text := getattr(item, name)) is not None
    }
    more = frozen(each_text(item.more, change)) if item.more else item.more
    return item._replace(**texts, tags=tuple(map(change, item.tags)), more=more)


def is_in(draft: Draft, settings: Settings) -> bool:
    """Return whether a text of a draft holds personal data, where that is looked for."""
    return settings.personal != "off" and any(
        kinds_in(text, settings.patterns) for _, text in texts_of(draft)
    )


_beside = attrgetter(*FREE, "tags", "more")


def short_ttl(ttl: str | None) -> str:
    """Return the time to live of an entry with personal data: 24 hours, or what is asked for, up to
    seven days. InvalidEntry for more.
    """
    span, most = parse_ttl(ttl or SHORT_TTL), parse_ttl(LONGEST_TTL)
    if span is None or most is None or span > most:
        raise InvalidEntry(
            f"ttl {ttl!r} is too long for personal data: at most {LONGEST_TTL}", ttl=ttl
        )
    return ttl or SHORT_TTL


def texts_of(draft: Draft | Entry) -> Iterator[tuple[str, str]]:
    """Yield every text of a draft or an entry, with what it is: the body first."""
    yield "the body", draft.body
    for name in FREE:
        if text := getattr(draft, name):
            yield f"the field {name}", text
    for tag in draft.tags:
        yield "a tag", tag
    for name, value in draft.more.items():
        for text in strings(value):
            yield f"the field {name}", text


def _of_glob(glob: str) -> str:
    parts = {"#": "[0-9]", "?": "[A-Za-z]"}
    return rf"(?<!\w){''.join(parts.get(char) or re.escape(char) for char in glob)}(?!\w)"


def _is_email(text: str) -> bool:
    name, _, host = text.rstrip(".").rpartition("@")
    top = host.rpartition(".")[2].lower()
    return (
        name.lower() not in _ROBOTS
        and not compiled(_EXAMPLES, re.IGNORECASE).fullmatch(host)
        and top.isalpha()
        and 2 <= len(top) <= 18
        and top not in _NOT_TLD
        and not any(word in name.lower() for word in ("noreply", "no-reply", "[bot]"))
    )


def _is_iban(text: str) -> bool:
    plain = re.sub(r"[ -]", "", text)
    # what follows the number may have been taken with it
    return any(
        int("".join(str(int(char, 36)) for char in plain[4:size] + plain[:4])) % 97 == 1
        for size in range(15, min(len(plain), 34) + 1)
    )


def _is_card(text: str) -> bool:
    digits = re.sub(r"[ .-]", "", text)
    issuer = re.match(r"4|5[1-5]|2[2-7]|3[47]|6011|65|35|3[068]|62", digits)
    if not issuer or not 13 <= len(digits) <= 19 or len(set(digits)) < 4:
        return False
    total = 0
    for index, char in enumerate(reversed(digits)):
        value = int(char) * (1 + index % 2)
        total += value - 9 * (value > 9)
    return total % 10 == 0


def _is_phone(text: str) -> bool:
    digits = re.sub(r"\D", "", text)
    return (
        7 <= len(digits) <= 15
        and len(set(digits)) > 2
        and "555-01" not in text
        and not re.fullmatch(r"[0-9]{4}[-/.][0-9]{2}[-/.][0-9]{2}.*", text)
        and not re.fullmatch(r"[0-9]+\.[0-9]+", text)
        and not re.fullmatch(r"[0-9]{1,3}(?:\.[0-9]{1,3}){2,3}", text)
    )


def _is_ip(text: str) -> bool:
    return all(int(part) < 256 for part in text.split("."))


_CHECKS: Mapping[str, Callable[[str], bool]] = {
    "e-mail address": _is_email,
    "iban": _is_iban,
    "card number": _is_card,
    "phone number": _is_phone,
    "ip address of a person": _is_ip,
}
