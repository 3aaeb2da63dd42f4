"""Secrets and personal data that are made up, of every kind, in sentences, settings and code, and a
look for them in every byte below a folder. Nothing here is anybody's.
"""

import base64
import json
import os
import random
import string

WORDS = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
FORMS = (
    "The deploy used {} until today.",
    "export KEY={}\nthen run `make`",
    '{{"url": "https://api.internal", "value": "{}"}}',
    "- step 3: call it with {}, as before\n- step 4: wait",
    "Der Schlüssel lautet {} und gilt bis Freitag.",
    "{}",
)
PASSWORDS = (
    "password={}",
    "db_password: {}",
    'PASSWORD = "{}"',
    "The password is {} for now.",
    "passwd: '{}'",
    'client_secret="{}"',
    "Das Passwort: {}",
    '{{"api_key": "{}"}}',
)


def secrets(count, seed=1):
    """Yield so many triples: the kind, a text that holds a secret, the secret."""
    draw = random.Random(seed)
    kinds = list(_SECRETS)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        secret = _SECRETS[kind](draw)
        if kind == "password":
            yield kind, draw.choice(PASSWORDS).format(secret), secret
        elif kind == "address":
            scheme = draw.choice(("postgres", "mysql", "redis", "amqp", "https", "mongodb+srv"))
            yield (kind, f"Connect to {scheme}://app:{secret}@db.internal:5432/main", secret)
        elif kind == "bearer":
            yield (kind, f"curl -H 'Authorization: Bearer {secret}' https://api.internal", secret)
        elif kind == "aws secret":
            yield kind, f"aws_secret_access_key = {secret}", secret
        elif kind == "azure":
            yield (kind, f"AccountName=me;AccountKey={secret}==;EndpointSuffix=core", secret)
        elif kind == "private key":
            name = draw.choice(("RSA ", "EC ", "OPENSSH ", ""))
            text = f"-----BEGIN {name}PRIVATE KEY-----\n{secret}\n-----END {name}PRIVATE KEY-----"
            yield kind, f"This is it:\n{text}\nKeep it.", secret
        else:
            yield kind, draw.choice(FORMS).format(secret), secret


def _of(letters, size, before=""):
    return lambda draw: before + "".join(draw.choices(letters, k=size))


def _part(draw, fields):
    raw = json.dumps(fields | {"n": draw.randrange(10**9)}).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _jwt(draw):
    sub = {"sub": str(draw.randrange(10**9)), "iat": 1_600_000_000}
    return f"{_part(draw, {'alg': 'HS256'})}.{_part(draw, sub)}.{_of(WORDS + '-_', 43)(draw)}"


def _password(draw):
    return _of(WORDS, draw.randrange(7, 20))(draw) + draw.choice("123456789") + draw.choice("!x#q")


_SECRETS = {
    "aws": _of(UPPER, 16, "AKIA"),
    "aws secret": _of(WORDS + "+/", 40),
    "github": lambda draw: _of(WORDS, 36, draw.choice(("ghp_", "gho_", "ghs_")))(draw),
    "github fine": _of(WORDS + "_", 82, "github_pat_"),
    "gitlab": _of(WORDS, 20, "glpat-"),
    "slack": lambda draw: _of(WORDS, 24, f"xoxb-{draw.randrange(10**11, 10**12)}-")(draw),
    "anthropic": _of(WORDS + "-_", 95, "sk-ant-api03-"),
    "openai": _of(WORDS, 48, "sk-proj-"),
    "openai old": lambda draw: _of(WORDS, 46, "sk-")(draw) + "7a",
    "google": _of(WORDS + "-_", 35, "AIza"),
    "groq": _of(WORDS, 52, "gsk_"),
    "hugging face": _of(string.ascii_letters, 34, "hf_"),
    "stripe": _of(WORDS, 24, "sk_live_"),
    "npm": _of(WORDS, 36, "npm_"),
    "sendgrid": lambda draw: f"SG.{_of(WORDS, 22)(draw)}.{_of(WORDS, 43)(draw)}",
    "jwt": _jwt,
    "private key": lambda draw: "\n".join(_of(WORDS + "+/", 64)(draw) for _ in range(4)),
    "address": _of(WORDS, 14),
    "bearer": lambda draw: _of(WORDS, 32)(draw) + "7",
    "password": _password,
    "azure": _of(WORDS + "+/", 86),
    "twilio": _of(HEX, 32, "SK"),
}


def plain_in(root, texts):
    """Return the files below a folder that hold a line of one of these texts: every file, hidden
    ones and those of a database too.
    """
    wanted = {}
    for text in texts:
        for line in text.splitlines():
            for form in (line, json.dumps(line)[1:-1]):
                wanted.setdefault(form.encode(), text)
    found = set()
    for folder, _, names in os.walk(root):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                raw = file.read()
            found |= {
                (os.path.join(folder, name), text) for form, text in wanted.items() if form in raw
            }
    return found


# -- personal data ---------------------------------------------------------------------------------

FIRST = "Maria Jonas Aylin Pierre Lucía Tomasz Ingrid Kwame Priya Björn Chiara Sean".split()
LAST = (
    "Keller Dubois García Kowalski Nyström Mensah Sharma O'Neill Rossi Yilmaz Weber Novak".split()
)
ROUND = {
    "e-mail": ("Write to {}.", "Ihre Adresse ist {}", "{} asked for a refund", "cc: {}", "<{}>"),
    "phone": (
        "Call her on {}",
        "Tel: {}",
        "Handy {}",
        "mobile number: {}",
        "Téléphone : {}",
        "phone={}",
    ),
    "international": (
        "She can be reached at {}.",
        "{} (evenings)",
        "contact {}",
        "Rufen Sie {} an",
    ),
    "iban": ("Refund to {}", "IBAN: {}", "Die IBAN lautet {}.", "bank: {}, today"),
    "card": ("The customer paid with {}", "card {}", "Karte: {}", "card_number={}"),
    "ssn": ("SSN {}", "her number is {}", "ssn: {}"),
    "passport": ("Passport number {}", "passport no. {}", "Reisepassnummer: {}", "Pasaporte: {}"),
    "tax": ("Steuer-ID: {}", "tax id {}", "Steuernummer {}", "TIN: {}"),
    "birth": (
        "born on {}",
        "Date of birth: {}",
        "geboren am {}",
        "née le {}",
        "DOB {}",
        "nacida el {}",
    ),
    "health": (
        "{} was diagnosed with {}",
        "Patient {} is treated for {}",
        "{} leidet an {}",
        "{} suffers from {}",
    ),
    "salary": (
        "The salary of {} is {}",
        "{} verdient {} im Jahr",
        "{}'s salary: {}",
        "Sueldo de {}: {}",
    ),
    "address": ("She lives at {}", "Send it to {}", "Adresse: {}", "{}"),
    "account": ("account number {}", "Konto Nr. {}", "Bank account no: {}"),
    "ip": ("The customer's IP address was {}", "her IP: {}", "user IP {}"),
}


def personal(count, seed=1):
    """Yield so many triples: the kind, a text that holds personal data, the piece of it."""
    draw = random.Random(seed)
    kinds = list(ROUND)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        name, value = f"{draw.choice(FIRST)} {draw.choice(LAST)}", _VALUES[kind](draw)
        form = draw.choice(ROUND[kind])
        text = form.format(name, value) if form.count("{}") == 2 else form.format(value)
        around = draw.choice(("{}", "Ticket 4711: {}", "{}\nThe deploy is at noon.", "- {}"))
        yield kind, around.format(text), value


def _digits(draw, form):
    return "".join(draw.choice("123456789") if char == "#" else char for char in form)


def _email(draw):
    first, last = draw.choice(FIRST).lower(), draw.choice(LAST).lower().replace("'", "")
    plain = {"í": "i", "ö": "o"}
    name = draw.choice((f"{first}.{last}", f"{first[0]}{last}", f"{last}+shop", f"{first}_{last}"))
    name = "".join(plain.get(char, char) for char in name)
    return f"{name}{draw.randrange(90)}@{draw.choice(('gmail.com', 'web.de', 'orange.fr', 'acme-corp.co.uk'))}"


def _iban(draw):
    country, form = draw.choice(
        (("DE", "#" * 18), ("FR", "#" * 23), ("ES", "#" * 20), ("GB", "NWBK" + "#" * 14))
    )
    bban = _digits(draw, form)
    number = int("".join(str(int(char, 36)) for char in f"{bban}{country}00"))
    plain = f"{country}{98 - number % 97:02d}{bban}"
    groups = " ".join(plain[at : at + 4] for at in range(0, len(plain), 4))
    return draw.choice((plain, groups))


def _card(draw):
    digits = draw.choice(("4", "51", "37")) + _digits(draw, "#" * 13)
    digits = digits[:15] if not digits.startswith("37") else digits[:14]
    total = 0
    for place, char in enumerate(reversed(digits)):
        value = int(char) * (2 - place % 2)
        total += value - 9 * (value > 9)
    digits += str(-total % 10)
    groups = " ".join(digits[at : at + 4] for at in range(0, len(digits), 4))
    return draw.choice((digits, groups, groups.replace(" ", "-")))


def _birth(draw):
    year = draw.randrange(1940, 2006)
    month = draw.randrange(1, 13)
    day = draw.randrange(1, 29)
    return draw.choice(
        (
            f"{year}-{month:02d}-{day:02d}",
            f"{day:02d}.{month:02d}.{year}",
            f"{month}/{day}/{year}",
            f"{day} March {year}",
        )
    )


def _address(draw):
    number = draw.randrange(1, 200)
    return draw.choice(
        (
            f"{number} Maple Street, Springfield, IL {_digits(draw, '#####')}",
            f"Lindenstraße {number}, {_digits(draw, '#####')} Köln",
            f"{number} rue des Lilas, {_digits(draw, '#####')} Lyon",
            f"Calle Mayor {number}, {_digits(draw, '#####')} Madrid",
            f"{number} High Street, London N1 9GU",
        )
    )


_VALUES = {
    "e-mail": _email,
    "phone": lambda draw: _digits(
        draw,
        draw.choice(
            ("0#71 #######", "(2##) 3##-4###", "0#0/######", "07### ######", "06 ## ## ## ##")
        ),
    ),
    "international": lambda draw: _digits(
        draw,
        draw.choice(
            (
                "+49 1## #######",
                "+1 (2##) 3##-####",
                "+33 6 ## ## ## ##",
                "+44##########",
                "+34 6## ### ###",
            )
        ),
    ),
    "iban": _iban,
    "card": _card,
    "ssn": lambda draw: _digits(draw, "1##-##-####"),
    "passport": lambda draw: _digits(
        draw, draw.choice(("C01X#####", "########", "PA######", "X#######"))
    ),
    "tax": lambda draw: _digits(
        draw, draw.choice(("## ### ### ###", "###########", "###/####/####"))
    ),
    "birth": _birth,
    "health": lambda draw: draw.choice(
        ("diabetes", "depression", "cancer", "HIV", "asthma", "epilepsy", "hepatitis")
    ),
    "salary": lambda draw: _digits(
        draw,
        draw.choice(
            ("€##,#00", "## 000 EUR".replace(" ", "."), "$1##,000", "£##,000", "#####.00 €")
        ),
    ),
    "address": _address,
    "account": lambda draw: _digits(draw, draw.choice(("########", "##########", "#### ####"))),
    "ip": lambda draw: (
        f"8{draw.randrange(9)}.{draw.randrange(256)}.{draw.randrange(256)}.{draw.randrange(256)}"
    ),
}
