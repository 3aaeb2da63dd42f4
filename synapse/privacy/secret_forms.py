"""The forms of secrets that are looked for here: of private keys and addresses, of what a name or
the option of a program is given, and of tokens that are known by how they begin, however long they
are. `known_forms` has those of a public list; `secrets` looks for both.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping

# A text without any of these words, and without a long one, holds no secret.
WORDS = frozenset(
    "pass password passwd passwort passphrase passcode pwd pw kennwort contraseña passe credential"
    " credentials secret secrets token key apikey bearer authorization accountkey sharedaccesskey"
    " accesskey secretkey privatekey accesstoken authtoken apitoken clientsecret sk rk gsk hf xai"
    " r8 pplx whsec npm pypi sg hvs hvb dop shpat shpca shppa shpss glpat glptt gldt glrt glcbt"
    " glsoat glft glimt gloas glagent glffct ghp gho ghu ghs ghr github xoxb xoxp xoxa xoxe xoxr"
    " xoxs xoxo xapp hooks lin telegram bot twilio age gocspx ntn sntrys sntryu figd dp fo1 fm2"
    " pscale rdme curl wget mysql mysqldump mysqladmin mariadb sshpass auths auth login pgpass 5432"
    " 5433 6432 sig amz goog signature".split()
)
# A name that says that what follows it is a secret.
NAME = (
    r"(?:pass(?:word|wd|wort|phrase|code)?|pwd?|kennwort|contraseña|mot de passe|credentials?"
    r"|(?:[\w-]*[_-])?(?:secret|passwd|password|pwd|passphrase)(?:[_-]?key|[_-]?access[_-]?key)?"
    r"|(?:[\w-]*[_-])?(?:api|access|private|account|auth|secret|signing|encryption|client|shared"
    r"|iam)[_ -]?(?:access[_ -]?)?(?:key|secret|token)"
    r"|(?:[\w-]*[_-])?token)"
)
ASSIGNED = (
    rf"(?<![\w-])[\"']?(?P<name>{NAME})[\"']?"
    r"(?:\s{0,8}(?::=|=>|==?|:)\s{0,8}|\s{1,8}(?:is|ist|lautet|es|est)\s{1,8}(?::\s{0,8})?)"
    r"(?P<quote>[\"'`]?)(?P<value>[^\s\"'`]{6,512})(?P=quote)"
)
# A name of those, in small letters, before a sign or a word that assigns.
FOLLOWED = (
    r"(?:pass|word|passwd|passwort|phrase|passcode|pwd?|kennwort|contraseña|mot de passe"
    r"|credentials?|secret|key|token)[\"']{0,4}\s{0,8}(?:[:=]|\s(?:is|ist|lautet|es|est)\s)"
)
SCHEME = "://"  # has a form only where a text has `@` too
# A named part of a form is the secret, which has to pass the check of that name. A text that holds
# one has a keyword in small letters; elsewhere, a sign as it is.
FORMS: tuple[tuple[str, str, str], ...] = (
    (
        "private key",
        "private",
        r"(?s:-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?"
        r"(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z))",
    ),
    (
        "aws access key",
        "akia asia abia acca",
        r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}(?![A-Za-z0-9])",
    ),
    (
        "github token",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{22,})",
    ),
    ("anthropic key", "sk-ant-", r"(?<![A-Za-z0-9])sk-ant-[\w-]{16,}"),
    ("openai key", "sk-", r"(?<![A-Za-z0-9])sk-(?:proj|svcacct|admin|or|None)-[\w-]{16,}"),
    ("model provider key", "sk-", r"(?<![A-Za-z0-9-])sk-(?=\w*\d)[A-Za-z0-9]{20,}"),
    (
        "stripe key",
        "live_ test_ whsec_",
        r"(?<![A-Za-z0-9])(?:sk|rk)_(?:live|test)_\w{16,}|(?<!\w)whsec_[\w+/=]{16,}",
    ),
    ("google key", "aiza gocspx-", r"(?<!\w)(?:AIza[\w-]{35}|GOCSPX-[\w-]{20,})"),
    (
        "model provider key",
        "gsk_ hf_ xai- r8_ pplx-",
        r"(?<!\w)(?:gsk_[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{30,}|xai-[A-Za-z0-9]{20,}"
        r"|r8_[A-Za-z0-9]{30,}|pplx-[A-Za-z0-9]{20,})",
    ),
    (
        "azure key",
        "accountkey= sharedaccesskey=",
        r"(?i:AccountKey|SharedAccessKey)=(?P<azure>[A-Za-z0-9+/]{40,}={0,2})",
    ),
    (
        "bearer token",
        "bearer authorization",
        r"(?i:(?<!\w)(?:bearer|authorization:\s*(?:basic|token))\s+)"
        r"(?P<bearer>(?=[^\s]*\d)[A-Za-z0-9._~+/-]{16,}=*)",
    ),
    (
        "notion token",
        "ntn_ secret_",
        r"(?<!\w)(?:ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43}(?!\w))",
    ),
    ("sentry token", "sntrys_ sntryu_", r"(?<!\w)sntry[su]_[\w+/=-]{20,}"),
    ("figma token", "figd_", r"(?<!\w)figd_[\w-]{20,}"),
    (
        "doppler token",
        "dp.",
        r"(?<!\w)dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[\w-]{1,64}\.)?[A-Za-z0-9]{40,}",
    ),
    ("fly token", "fo1_ fm1a_ fm1r_ fm2_", r"(?<!\w)f(?:o1|m1[ar]|m2)_[\w+/=-]{40,}"),
    ("mailgun key", "key-", r"(?<![\w-])(?:pub)?key-[0-9a-f]{32}(?!\w)"),
    (
        "mailchimp key",
        " ".join(f"us{number}" for number in range(1, 30)),
        r"(?<!\w)[0-9a-f]{32}-us\d{1,2}(?!\w)",
    ),
    ("vault token", "hvs. hvb.", r"(?<!\w)hv[sb]\.[\w-]{20,}"),
    (
        "signed address",
        "signature= sig= token=",
        r"(?i:[?&;](?:x-amz-(?:signature|security-token)|x-goog-signature|signature|sig))="
        r"(?P<signed>[A-Za-z0-9%+/=._~-]{16,4096})",
    ),
    (
        "password",
        "curl wget",
        r"(?<!\S)(?:-u|-U|--user|--proxy-user)(?:=|[ \t]{0,4})[\"']?[^\s:\"'/=]{1,64}:"
        r"(?P<login>[^\s\"'`]{3,200})",
    ),
    (
        "password",
        "mysql mariadb",
        r"(?<!\w)(?:mysql|mariadb)\w{0,20}[ \t][^\n|;&]{0,300}?(?<=[ \t])-p[\"']?"
        r"(?P<mysql>[^\s\"'`-][^\s\"'`]{2,200})",
    ),
    (
        "password",
        "sshpass",
        r"(?<!\w)sshpass[ \t]{1,4}-p[ \t]{0,4}[\"']?"
        r"(?P<sshpass>(?<=')[^'\n]{3,200}|(?<=\")[^\"\n]{3,200}|[^\s\"'`]{3,200})",
    ),
    (
        "registry login",
        "auth",
        r"\"auth\\?\"\s{0,8}:\s{0,8}\\?\"(?P<registry>[A-Za-z0-9+/]{8,4096}={0,2})",
    ),
    (
        "password",
        "login",
        r"(?<!\w)(?:machine\s{1,8}\S{1,200}|default)\s{1,8}login\s{1,8}\S{1,200}\s{1,8}"
        r"password\s{1,8}(?P<netrc>[^\s\"'`]{3,200})",
    ),
    (
        "password",
        ":5432: :5433: :6432: pgpass",
        r"(?<![\w:.*-])[\w.*-]{1,100}:(?:5432|5433|6432|\*):(?!\d+:)[\w.*-]{1,64}:[\w.*-]{1,64}:"
        r"(?P<pgpass>[^\s:\"'`]{3,200})",
    ),
    (
        "password",
        "pass pw kenn",
        r"(?i:(?<![\w-])(?:--?pass(?:word|wd)?|pass(?:word|wd|wort)|pwd?|kennwort))[ \t]{1,4}"
        r"(?P<spoken>[^\s\"'`,;:=(){}\[\]<>|]{6,128})",
    ),
)
ANYWHERE: tuple[tuple[str, str, str], ...] = (
    ("twilio key", "SK AC", r"(?<!\w)(?:SK|AC)[0-9a-f]{32}(?!\w)"),
    ("telegram token", ":AA", r"(?<!\d)\d{8,10}:AA[\w-]{33}"),
    ("jwt", "eyJ", r"(?<!\w)eyJ[\w-]{8,}\.eyJ[\w-]{8,}(?:\.[\w-]*)?"),
    (
        "password in an address",
        SCHEME,
        r"(?<!\w)[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s:/@\"'`<>{}$]*:"
        r"(?P<url>[^\s@\"'`<>{}$/]+(?:/[^\s@\"'`<>{}$/]*)?)@(?=[\w\[])",
    ),
)
# Words by which a text may hold a form that has no long row of letters.
SHORT = frozenset(
    "private accountkey sharedaccesskey bearer authorization curl wget mysql mysqldump mysqladmin"
    " mariadb sshpass login auth 5432 5433 6432 pgpass sig pass password passwd passwort pw pwd"
    " kennwort".split()
)
# Names of secrets, alone or as the end of others.
NAMED = frozenset(
    "pass password passwd passwort passphrase passcode pwd pw kennwort contraseña passe credential"
    " credentials secret secrets token key apikey accesskey secretkey privatekey accesstoken"
    " authtoken apitoken clientsecret".split()
)
# What stands in the place of a secret in texts that show how to give one.
PLACEHOLDER = (
    r"(?i:.*(?:example|placeholder|changeme|change_me|redacted|dummy|your[_-]|_here\b|xxxx|\*\*\*"
    r"|\.\.\.|…).*|[<\[{($%&*@#/\\|].*|(?:none|null|true|false|required|optional|str|string|bytes)"
    r"\b.*|x+|-+)"
)
CODE = r"[A-Za-z_][\w.-]*(?:[\[(,;:)\]}].*)?|[A-Za-z]*[(\[].*|[\w.]+\(.*"
COUNTS = frozenset(("token", "credential", "credentials"))
# What stands behind "password" in texts about passwords: names of methods and versions.
_METHOD = r"(?i:(?:sha|md|utf|v|py|python|oauth|base|aes|rsa|ed|http|argon|pbkdf)-?[0-9][\w.-]*)"


def _is_given(value: str) -> bool:
    """Return whether an option is given a secret, and not a name of one, or a number."""
    return (
        re.fullmatch(PLACEHOLDER, value) is None
        and not value.isdigit()
        and value.lower().rstrip(".,;)") not in NAMED
    )


def _is_registry(value: str) -> bool:
    """Return whether a value is a name and a password, as a registry of containers has them."""
    try:
        return b":" in base64.b64decode(value + "=" * (-len(value) % 4), validate=True)[1:-1]
    except binascii.Error:
        return False


def _is_spoken(value: str) -> bool:
    """Return whether a word behind "password" is one: letters with digits or signs in it."""
    value = value.rstrip(".?!")
    return (
        len(value) >= 6
        and _is_given(value)
        and re.fullmatch(_METHOD, value) is None
        and any(map(str.isalpha, value))
        and (any(map(str.isdigit, value)) or any(char in "!@#$%^&*?+~" for char in value))
        and "/" not in value
    )


CHECKS: Mapping[str, Callable[[str], bool]] = {
    "login": _is_given,
    "mysql": _is_given,
    "sshpass": _is_given,
    "netrc": _is_given,
    "pgpass": _is_given,
    "registry": _is_registry,
    "spoken": _is_spoken,
    "signed": lambda value: any(map(str.isdigit, value)),
}
