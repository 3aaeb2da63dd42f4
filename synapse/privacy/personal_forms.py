"""The forms of personal data: what each kind looks like, in languages of Europe. `personal` looks
for them; nothing here looks at a text.
"""

from __future__ import annotations

from synapse.system.typed import NamedTuple

CARD = "0" * 13  # the shape of the shortest number of a card
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


FORMS = (
    Form(
        "e-mail address",
        r"(?:(?<![\w.+%/:-])|(?<=mailto:))(?P<value>[\w.+%-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)",
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
        shapes=(CARD,),
    ),
    Form(
        "card number",
        r"(?<![\w.-])(?P<value>[2-6][0-9]{3}(?:\.[0-9]{4}){3})(?![\w.-]*[0-9])",
        digits=16,
        shapes=("0000.0000.0000.0000",),
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
        r"(?<![\w.+/-])(?P<value>01[5-7][0-9][ /-][0-9]{3}(?: ?[0-9]){4,5})(?![\w./-]*[0-9])",
        digits=11,
        shapes=("0000 000", "0000/000", "0000-000"),
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
            "phone tel mobil cell fax handy móvil téléphone portable whatsapp call_ ring"
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
        starts=_starts("born date_ birth dob gebor geburts né fecha_ nacid data_di_nascita"),
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
