"""Personal data in texts: found by patterns with checks, and named by kind, never repeated.

`refuse` is asked before a text is stored. What only looks like personal data (addresses of robots,
examples, versions, digests, ids) is not meant. A workspace adds globs of its own, `privacy:
patterns:` in synapse.yaml; nothing takes a kind away.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter

from synapse.errors import InvalidEntry, PersonalData
from synapse.model.entry import Draft, Entry, parse_ttl
from synapse.privacy import secrets
from synapse.privacy.secrets import apart, compiled
from synapse.privacy.words import Harmless, Words, bytes_of, has, strings, words_of
from synapse.system.typed import NamedTuple

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
_CARD = "0" * 13
_SHAPE = bytes(
    48 if 48 <= code <= 57 else 65 if 65 <= code <= 90 else code for code in range(256)
)
_MONTH = r"(?:jan|feb|mar|apr|may|mai|jun|jul|aug|sep|okt|oct|nov|dec|dez|ene|abr|avr|fév|aoû)\w*"
_DATE = (
    rf"(?:[0-9]{{4}}[-/.][0-9]{{1,2}}[-/.][0-9]{{1,2}}|[0-9]{{1,2}}[-/.][0-9]{{1,2}}[-/.]"
    rf"[0-9]{{2,4}}|[0-9]{{1,2}}(?:st|nd|rd|th|\.)?\s(?:of\s|de\s)?{_MONTH},?\s(?:de\s)?[0-9]{{4}}"
    rf"|{_MONTH}\.?\s[0-9]{{1,2}}(?:st|nd|rd|th)?,?\s[0-9]{{4}})"
)
_MONEY = (
    r"(?:(?:[$€£¥]|USD|EUR|GBP|CHF|PLN)\s?[0-9][0-9.,' ]{2,}[0-9]?k?"
    r"|[0-9][0-9.,']{2,}\s?(?:[$€£]|USD|EUR|GBP|CHF|PLN|euros?|dollars?)"
    r"|[0-9][0-9.,']{3,}\s?(?:a year|per year|a month|per month|p\.a\.|im Jahr|im Monat|par an"
    r"|al año))"
)
_ILLNESS = (
    r"(?:diabet\w+|cancer|krebs|tumou?r|leuk[aä]\w+|depressi[oó]n\w*|dépression|bipolar\w*"
    r"|schizophren\w+|hiv|aids|asthma\w*|epilep\w+|hepatitis|hépatite|anxiety disorder|ptsd"
    r"|migr[aä]in\w+|parkinson\w*|alzheimer\w*|dementia|demenz|multiple sclerosis|covid\w*"
    r"|pregnan\w+|schwanger\w*|hypertension|bluthochdruck|arthritis|anorexia|bulimia|burnout"
    r"|peanuts?|penicillin|insulin|lithium|sertraline|methadone|metformin|antidepressants?)"
)


class Form(NamedTuple):
    """What a kind of personal data looks like, and what a text has at least in which it can stand:
    so many digits, one of these shapes, one of these words. It begins with one of `starts`.

    In a shape, `0` is any digit, `A` any capital, and `r` whatever a row of digits may have in it.
    """

    kind: str
    pattern: str
    digits: int = 0
    shapes: tuple[str, ...] = ()
    words: frozenset[str] = frozenset()
    starts: tuple[str, ...] = ()


def _starts(text: str) -> tuple[str, ...]:
    return tuple(phrase.replace("_", " ") for phrase in text.split(" "))


_FORMS = (
    Form(
        "e-mail address",
        r"(?<![\w.+%/:-])(?P<value>[\w.+%-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)",
        shapes=("@",),
    ),
    Form(
        "iban",
        r"(?<![A-Za-z0-9])(?P<value>[A-Z]{2}[0-9]{2}(?:[ -]?[A-Z0-9]){11,30})(?![a-z0-9])",
        digits=2,
        shapes=("AA00",),
    ),
    Form(
        "card number",
        r"(?<![\w.-])(?P<value>[2-6][0-9]{3}(?:[ -]?[0-9]){9,15})(?![\w.]?[0-9])",
        digits=13,
        shapes=(_CARD,),
    ),
    Form(
        "social security number",
        r"(?<![\w.-])(?P<value>(?!000|666|9)[0-9]{3}-(?!00)[0-9]{2}-(?!0000)[0-9]{4})(?![\w-])",
        digits=9,
        shapes=("000-00-0000",),
    ),
    Form(
        "phone number",
        r"(?<![\w.+-])(?P<value>\+[1-9](?:[ ().-]{0,2}[0-9]){8,14})(?![0-9A-Za-z])",
        digits=9,
        shapes=("+0",),
    ),
    Form(
        "phone number",
        r"(?<![\w.(-])(?P<value>\([2-9][0-9]{2}\) ?[2-9][0-9]{2}[-. ][0-9]{4}"
        r"|[2-9][0-9]{2}([-.])[2-9][0-9]{2}\2[0-9]{4})(?![\w.-]*[0-9])",
        digits=10,
        shapes=("000-0000", "000.0000", "000 0000"),
    ),
    Form(
        "phone number",
        r"(?i)(?<!\w)(?:phone|telephone|tel|mobile|mobil|cell|fax|handy|telefon|telefonnummer"
        r"|teléfono|móvil|téléphone|portable|whatsapp|call (?:me|him|her|them)|ring)"
        r"(?: ?(?:no|nr|number|nummer|is|ist|est|es|at|on|unter|au|al|work|home|private|:|#|=|\.))*"
        r"[ :=.]{1,3}(?P<value>\+?[0-9(][0-9 ().\-/]{6,18}[0-9])(?![\w-])",
        digits=7,
        shapes=("r" * 8,),
        starts=_starts(
            "phone tel mobil cell fax handy móvil téléphone portable whatsapp call_ "
            "ring"
        ),
    ),
    Form(
        "identity number",
        r"(?i)(?<!\w)(?:passport|passeport|reisepass(?:nummer)?|pasaporte|passaporto"
        r"|personalausweis(?:nummer)?|ausweis(?:nummer)?|national id|identity card|id card"
        r"|driver'?s? licen[cs]e|driving licen[cs]e|führerschein(?:nummer)?|social security"
        r"|sozialversicherungsnummer|national insurance|ssn|nino|dni|nie|nif|cpf|pesel|bsn|aadhaar"
        r"|codice fiscale|tax id|tax number|tin|steuer-?id|steuernummer"
        r"|steueridentifikationsnummer|numéro fiscal)"
        r"(?: ?(?:no|nr|number|num|nummer|n°|núm|is|ist|est|es|era|of|was|:|#|=|\.))*"
        r"[ :=.]{1,3}(?P<value>(?=(?:[ ./-]?[A-Z0-9]){6,20})(?=(?:[^0-9\s]*[ ]?[0-9]){4})"
        r"[A-Z0-9][A-Z0-9 ./-]{4,20}[A-Z0-9])",
        digits=4,
        starts=_starts(
            "pass pasaporte reisepass personalausweis ausweis national_i "
            "identity_card id_card driv führerschein social_security sozialv ssn "
            "nino dni nie nif cpf pesel bsn aadhaar codice_fiscale tax_ tin steuer "
            "numéro_fiscal"
        ),
    ),
    Form(
        "date of birth",
        r"(?i)(?<!\w)(?:born|date of birth|birth ?date|dob|birthday|geboren|geburtsdatum"
        r"|geburtstag|née?|date de naissance|fecha de nacimiento|nacid[oa]|data di nascita)"
        rf"(?: ?(?:on|am|is|ist|le|el|est|es|the|in|:|=|\())*[ :=(]{{1,3}}(?P<value>{_DATE})",
        digits=4,
        shapes=("0-0", "0/0", "0.0", "0000"),
        starts=_starts(
            "born date_ birth dob gebor geburts né fecha_ nacid data_di_nascita"
        ),
    ),
    Form(
        "salary",
        r"(?i)(?<!\w)(?:salary|gehalt|jahresgehalt|salaire|sueldo|salario|stipendio|earns|verdient"
        rf"|wages?|yearly income|compensation)(?!\w)[^.\n]{{0,40}}?(?P<value>{_MONEY})",
        digits=1,
        words=frozenset(
            "salary gehalt jahresgehalt salaire sueldo salario stipendio earns verdient"
            " wage wages yearly compensation".split()
        ),
        starts=_starts(
            "sala gehalt jahresgehalt sueldo stipendio earns verdient wage "
            "yearly_income compensation"
        ),
    ),
    Form(
        "health",
        r"(?i)(?<!\w)(?:diagnosed|diagnos[ei]s?|diagnostiziert|suffers|suffering|leidet|allergic"
        r"|patient(?:in)?|prescribed|medication|souffre|diagnostiquée?|padece|diagnosticad[oa]"
        rf"|treated for|treatment for|tested positive)(?!\w)[^.\n]{{0,50}}?(?<!\w)"
        rf"(?P<value>{_ILLNESS})(?!\w)",
        words=frozenset(
            "diagnosed diagnose diagnoses diagnosi diagnosis diagnostiziert suffers"
            " suffering leidet allergic patient patientin prescribed medication souffre"
            " padece diagnosticado diagnosticada treated treatment tested".split()
        ),
        starts=_starts(
            "diagnos suffer leidet allergic patient prescribed medication souffre "
            "padece treat tested_"
        ),
    ),
    Form(
        "bank account",
        r"(?i)(?<!\w)(?:(?:bank )?account|acct|konto|kontonummer|routing|sort code)"
        r" ?(?:number|no|nr|nummer|#)\.?(?: ?(?:is|ist|:|=))*[ :=]{1,3}"
        r"(?P<value>[0-9][0-9 -]{5,18}[0-9])(?![\w.])",
        digits=2,
        shapes=("r" * 7,),
        starts=_starts("account bank_ acct konto routing sort_code"),
    ),
    Form(
        "ip address of a person",
        r"(?i)(?<!\w)(?:home|private|customer|visitor|employee|subscriber|patient|member|person"
        r"|his|her|their|user|kunden?)(?:['’]s?)?s? (?:home |private )?ip(?:-adresse)?"
        r"(?: address)?(?: is| was| ist|:|=)*[ :=]{1,2}"
        r"(?P<value>(?!10\.|127\.|0\.|192\.168\.|172\.(?:1[6-9]|2[0-9]|3[01])\.|192\.0\.2\.|198\.51\."
        r"|203\.0\.113\.)(?:[0-9]{1,3}\.){3}[0-9]{1,3})",
        digits=4,
        shapes=("0.0",),
        starts=_starts(
            "home private customer visitor employee subscriber patient member "
            "person his her their user kunde"
        ),
    ),
    Form(
        "postal address",
        r"(?<![\w.])(?P<value>[0-9]{1,5}[A-Za-z]? (?:[NSEW]\.? )?(?:[A-Z][a-z]+ ){1,3}(?:Street|St"
        r"|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Court|Ct|Way|Square|Terrace)\b\.?"
        r",? [^\n]{0,30}?(?:[A-Z]{2} [0-9]{5}|[A-Z]{1,2}[0-9][0-9A-Z]? [0-9][A-Z]{2}))",
        digits=3,
        shapes=("AA 00000", "A0 0AA", "A00 0AA", "A0A 0AA"),
    ),
    Form(
        "postal address",
        r"(?<!\w)(?P<value>[A-ZÄÖÜ][\wäöüß.-]*(?: [A-ZÄÖÜ][\wäöüß-]*)?(?:straße|strasse|str\.|weg"
        r"|platz|allee|gasse|[Ss]traße|[Aa]llee) [0-9]{1,4} ?[a-z]?,? [0-9]{5} [A-ZÄÖÜ])",
        digits=6,
        shapes=("00000 ",),
    ),
    Form(
        "postal address",
        r"(?i)(?<!\w)(?P<value>(?:[0-9]{1,4}(?: bis)?,? (?:rue|avenue|boulevard|place|chemin)"
        r" [\w'’ -]{2,40}|(?:calle|avenida|plaza|via) [\w ]{2,40},? (?:n\.?º ?)?[0-9]{1,4})"
        r",? [0-9]{5} [a-z])",
        digits=6,
        shapes=("00000 ",),
    ),
)
# The words by which an illness is noticed, also those that are not of ASCII.
_ILL = frozenset(("diagnostiqué", "diagnostiquée")).union(
    *(form.words for form in _FORMS if form.kind == "health")
)
_ROBOTS = frozenset(
    "noreply no-reply donotreply do-not-reply git user users root admin administrator info support"
    " security hello contact team dev devs help sales press legal abuse postmaster webmaster"
    " hostmaster mailer-daemon bot ci build builds deploy test tests example you me name someone"
    " somebody username email mail person alice bob a b x y u foo bar nobody operator service"
    " api docs python-dev distutils-sig privacy conduct maintainers feedback ops oncall".split()
)
_EXAMPLES = re.compile(
    r"(?:.*\.)?(?:example|test|invalid|localhost|local|internal|lan)(?:\.(?:com|org|net|edu|de))?"
    r"|.*\.?(?:noreply\.github\.com|domain\.(?:com|tld)|company\.com|host\.com|host|bots\.\w+)",
    re.IGNORECASE,
)
_NOT_TLD = frozenset(
    "png jpg jpeg gif svg webp py js ts css html json yaml yml toml md txt sh service socket timer"
    " target mount so dll exe zip gz tar whl rs go c h cpp java rb local lock log conf cfg ini xml"
    " sql db csv pdf".split()
)


def kinds_in(
    text: str, patterns: Mapping[str, str] = {}, words: Words | None = None
) -> list[str]:
    """Return the kinds of personal data in a text, each once."""
    return list(dict.fromkeys(kind for kind, _, _ in found(text, patterns, words)))


def found(
    text: str, patterns: Mapping[str, str] = {}, words: Words | None = None
) -> Iterator[tuple[str, int, int]]:
    """Yield the kind and the place of each piece of personal data in a text."""
    words = words or words_of(text)
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
    if digits >= len(_CARD):  # a row of them may have spaces in it
        shape += "\n" + raw.translate(_SHAPE, b" -").decode("latin-1")
    shape += "\n" + raw.translate(_RUNS).decode()
    plain = text.isascii()  # elsewhere words do not end where a pattern sees their end
    for form in _FORMS:
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
    pattern = compiled(form.pattern)
    if not form.starts or len(small) != len(text):
        yield from pattern.finditer(text)
        return
    if not text.isascii():  # letters that a pattern takes for small ones
        small = small.replace("ı", "i").replace("ſ", "s")
    end = 0
    for start in sorted(_places(small, form.starts)):
        match = pattern.match(text, start) if start >= end else None
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
    if "@" in text or not _ILL.isdisjoint(words.each):
        return True
    raw = bytes_of(text)
    if b"0" not in raw.translate(_DIGITS):
        return False
    return (
        not WORDS.isdisjoint(words.each)
        or (_LONG_RUN in raw.translate(_RUNS) and _has_run(text))
        or "straße" in words.small
    )


def _has_run(text: str) -> bool:
    """Return whether a text has a long run of digits and of what stands between them."""
    return compiled(_RUN).search(text) is not None


def concealed(text: str, patterns: Mapping[str, str] = {}) -> str:
    """Return the text with the kinds of personal data in its place, where nobody can rephrase."""
    spans = [(start, end, kind) for kind, start, end in found(text, patterns)]
    for start, end, kind in reversed(apart(spans)):
        text = f"{text[:start]}[personal data: {kind}]{text[end:]}"
    return text


def refuse(texts: Iterable[tuple[str, str]], patterns: Mapping[str, str] = {}) -> None:
    """Raise PersonalData where one of these texts, each with what it is, holds any: it names the
    kinds and the places, never the text.
    """
    findings = [
        (kind, name) for name, text in texts for kind in kinds_in(text, patterns)
    ]
    if findings:
        listing = ", ".join(
            f"{kind} in {name}" for kind, name in dict.fromkeys(findings)
        )
        raise PersonalData(
            f"this holds personal data ({listing}): nothing was stored. Leave it out and say where"
            " it is kept, or write of a role instead of a person. Only the body of an entry with"
            " scope: encrypted may hold it, for 24h, at most 7d",
            kinds=list(dict.fromkeys(kind for kind, _ in findings)),
        )


def checked(draft: Draft, patterns: Mapping[str, str] = {}) -> Draft:
    """Return the draft as it may be stored, the one place that decides it: without personal data as
    it is; with it (marked or found) only in an encrypted body, with a short time to live.
    PersonalData elsewhere, beside such a body too; no setting turns it off. The body is `Harmless`
    where no text of the draft holds a secret either.
    """
    texts = [draft.body]
    if any(_beside(draft)):
        texts = [text for _, text in texts_of(draft)]
    joined = "\n".join(texts)
    words = words_of(joined)
    persons = (patterns or hinted(joined, words)) and any(
        kinds_in(text, patterns, words if text == joined else None) for text in texts
    )
    if persons:
        named = [*texts_of(draft)]
        refuse(named[draft.scope == "encrypted" :], patterns)
    if not persons and not (
        secrets.hinted(joined, words) and secrets.found(joined, words)
    ):
        draft = draft._replace(body=Harmless(draft.body))
    if draft.scope == "encrypted" and (persons or draft.pii):
        return draft._replace(ttl=short_ttl(draft.ttl))
    return draft


def is_in(draft: Draft, patterns: Mapping[str, str]) -> bool:
    """Return whether a text of a draft holds personal data."""
    return any(kinds_in(text, patterns) for _, text in texts_of(draft))


_beside = attrgetter("topic", "evidence", "claim", "when", "tags", "more")


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
    for name in ("topic", "evidence", "claim", "when"):
        if text := getattr(draft, name):
            yield f"the field {name}", text
    for tag in draft.tags:
        yield "a tag", tag
    for name, value in draft.more.items():
        for text in strings(value):
            yield f"the field {name}", text


def _of_glob(glob: str) -> str:
    parts = {"#": "[0-9]", "?": "[A-Za-z]"}
    return (
        rf"(?<!\w){''.join(parts.get(char) or re.escape(char) for char in glob)}(?!\w)"
    )


def _is_email(text: str) -> bool:
    name, _, host = text.rstrip(".").rpartition("@")
    top = host.rpartition(".")[2].lower()
    return (
        name.lower() not in _ROBOTS
        and not _EXAMPLES.fullmatch(host)
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
    digits = re.sub(r"[ -]", "", text)
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
