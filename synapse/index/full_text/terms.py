"""Words as full text has them: what of a text is looked for, what is left out, and to what it is
cut. Pure.

English endings are left to the tokenizer of the index (Porter's). Russian ones are cut here, on the
way in and on the way of a question, by the rules of Snowball's stemmer for Russian.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from synapse.system.pattern import later

MAX_TEXT = 10_000  # characters of a question that are read
MAX_WORDS = 48  # distinct words of it that are looked for

_WORD = re.compile(r"[^\W_]+")
_CYRILLIC = later("[а-яё]+")
# written without spaces
_SCRIPT = later("([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])")

# What says nothing of what a text is about: the lists in common use, and the pieces that
# apostrophes leave.
_ENGLISH = """
i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she
her hers herself it its itself they them their theirs themselves what which who whom whose this
that these those am is are was were be been being have has had having do does did doing a an the
and but if or because as until while of at by for with about against between into through during
before after above below to from up down in out on off over under again further then once here
there when where why how all any both each few more most other some such no nor not only own
same so than too very s t can will just don should now d ll m o re ve y ain aren couldn didn
doesn hadn hasn haven isn mightn mustn needn shan shouldn wasn weren won wouldn also could would
might must shall cannot let us get got ever yet
"""
_RUSSIAN = """
и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по только ее мне
было вот от меня еще нет о из ему теперь когда даже ну вдруг ли если уже или ни быть был него до
вас нибудь опять уж вам ведь там потом себя ничего ей может они тут где есть надо ней для мы
тебя их чем была сам чтоб без будто чего раз тоже себе под будет ж тогда кто этот того потому
этого какой какая какое какие совсем ним здесь этом один почти мой тем чтобы нее сейчас были
куда зачем почему сколько всех никогда можно при наконец два об другой хоть после над больше тот
через эти нас про всего них много разве три эту моя впрочем свою этой перед иногда лучше чуть
том нельзя такой им более всегда конечно всю между это
"""
STOP = frozenset(_ENGLISH.split()) | frozenset(_RUSSIAN.split())

_SUMMARY = later(
    r"(?:^|[.?!,] |\b(?:please|you|i) )"
    r"(?:(?:summari[sz]e|recap)\b|(?:give|provide|write|make|want|need|show|send)\b[^.?!]{0,60}?"
    r"\b(?:summary|overview|recap)\b)"
    r"|\b(?:дай|сделай|составь|нуж)\w*\b[^.?!]{0,60}?\b(?:сводк|обзор|итог|резюме)"
    r"|\b(?:обобщи|подытожь|резюмируй)"
)
_ANSWER = later(
    r"\b(?:did|had|have|has) [\w-]+ (?:recommend|suggest|advise|propose|explain|answer|reply)"
    r"|\b(?:по)?(?:рекомендовал|советовал)|\b(?:предложил|объяснил|ответил)"
)
# Words that ask for a summary, and say nothing of what it is to be about.
_OF_SUMMARIES = frozenset(
    """
    please summary summarize summarise overview recap give provide comprehensive complete clear
    detailed quick including throughout time far along way developed progressed discussed
    conversation conversations сводку сводка обзор итог итоги резюме обобщи подытожь резюмируй дай
    сделай составь краткую краткий краткое полную полный подробную подробный
    """.split()
)


def asks_for_answers(text: str) -> bool:
    """Return whether a question wants a summary, or what somebody recommended or explained: what
    answers it then are messages that are about others before and after them.
    """
    plain = _plain(text)
    return bool(_SUMMARY.search(plain) or _ANSWER.search(plain))


def folded(text: str) -> str:
    """Return a text as the index's tokenizer is given it, whether it is stored or asked for."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFC", text).lower().replace("ё", "е")
    return _CYRILLIC.sub(lambda word: russian(word[0]), _SCRIPT.sub(r" \1 ", text))


def sought(text: str) -> list[str]:
    """Return the distinct words of a question that say what it is about; where none of them does,
    all of them. Quotes, operators and signs of any kind only separate.
    """
    plain = _plain(text)
    distinct = list(dict.fromkeys(_WORD.findall(plain)))
    telling = [text_word for text_word in distinct if text_word not in STOP] or distinct
    if _SUMMARY.search(plain):
        telling = [text_word for text_word in telling if text_word not in _OF_SUMMARIES] or telling
    by_form: dict[str, str] = {}
    for text_word in telling:
        for cut in _WORD.findall(folded(text_word)):
            # of several forms of a word, the first one
            by_form.setdefault(form(cut), cut)
    return list(by_form.values())[:MAX_WORDS]


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text[:MAX_TEXT]).lower().replace("ё", "е")


def forms(text: str) -> frozenset[str]:
    """Return the roots of the words that say what a text is about, however many there are."""
    plain = unicodedata.normalize("NFC", text).lower().replace("ё", "е")
    telling = (term for term in set(_WORD.findall(plain)) if term not in STOP)
    return frozenset(form(cut) for term in telling for cut in _WORD.findall(folded(term)))


def places(text: str, words: frozenset[str]) -> list[tuple[int, int]]:
    """Return where words of a text stand that are forms of these, as nearly as endings tell."""
    low = text.lower().replace("ё", "е")
    if len(low) != len(text):  # a letter whose small form is two
        low = "".join(letter.lower()[0] for letter in text).replace("ё", "е")
    forms = _forms_of(words)
    spans: set[tuple[int, int]] = set()
    for start in forms:
        place = low.find(start)
        while place >= 0:
            match = _WORD.match(low, place)
            end = match.end() if match else place + 1
            if not low[place - 1 : place].isalnum() and root(low[place:end]) in forms:
                spans.add((place, end))
            place = low.find(start, end)
    return sorted(spans)


@lru_cache(64)
def _forms_of(words: frozenset[str]) -> frozenset[str]:
    return frozenset(map(form, words))


def form(word: str) -> str:
    """Return the root of a word of a question, whose Russian ending is cut already."""
    return root(word) if word.isascii() else word


@lru_cache(4_096)
def root(stem: str) -> str:
    """Return a word without its ending: for what is shown, where the index cannot be asked."""
    if not stem.isascii():
        return russian(stem)
    for endings in (("ies", "ied", "ing", "ed", "es", "ly", "s"), ("y", "e", "i")):
        ending = next(
            (
                suffix
                for suffix in endings
                if stem.endswith(suffix) and len(stem) - len(suffix) >= 3
            ),
            "",
        )
        stem = stem.removesuffix(ending)
        if ending and stem[-1] == stem[-2] and len(stem) > 3 and stem[-1] not in "ls":
            stem = stem[:-1]
    return stem


# -- Russian ---------------------------------------------------------------------------

_VOWELS = "аеиоуыэюя"
_REST = later(f"^(.*?[{_VOWELS}])(.*)$")
_GERUND = later("((ив|ивши|ившись|ыв|ывши|ывшись)|((?<=[ая])(в|вши|вшись)))$")
_REFLEXIVE = later("(ся|сь)$")
_ADJECTIVE = later(
    "(ее|ие|ые|ое|ими|ыми|ей|ий|ый|ой|ем|им|ым|ом|его|ого|ему|ому|их|ых|ую|юю|ая|яя|ою|ею)$"
)
_PARTICIPLE = later("((ивш|ывш|ующ)|((?<=[ая])(ем|нн|вш|ющ|щ)))$")
_VERB = later(
    "((ила|ыла|ена|ейте|уйте|ите|или|ыли|ей|уй|ил|ыл|им|ым|ен|ило|ыло|ено|ят|ует|уют|ит|ыт|ены|ить|ыть|ишь|ую|ю)"
    "|((?<=[ая])(ла|на|ете|йте|ли|й|л|ем|н|ло|но|ет|ют|ны|ть|ешь|нно)))$"
)
_NOUN = later(
    "(а|ев|ов|ие|ье|е|иями|ями|ами|еи|ии|и|ией|ей|ой|ий|й|иям|ям|ием|ем|ам|ом|о|у|ах|иях|ях|ы|ь|ию|ью|ю|ия|ья|я)$"
)
_DERIVED = later(f"(?<=.)[^{_VOWELS}][{_VOWELS}]+[^{_VOWELS}]+[{_VOWELS}].*(?<=о)сть?$")
_SUPERLATIVE = later("ейше?$")


@lru_cache(16_384)
def russian(word: str) -> str:
    """Return the stem of a Russian word, in lower case; any other word as it is."""
    match = _REST.match(word)
    if match is None or len(word) < 3:
        return word
    start, tail = match[1], _inflection(match[2])
    tail = tail.removesuffix("и")
    if _DERIVED.search(tail):
        tail = re.sub("ость?$", "", tail)
    if tail.endswith("ь"):
        return start + tail[:-1]
    tail = _SUPERLATIVE.sub("", tail)
    return start + (tail[:-1] if tail.endswith("нн") else tail)


def _inflection(tail: str) -> str:
    """Return what is left of the part after the first vowel without the ending that grammar gave
    it.
    """
    cut = _GERUND.sub("", tail)
    if cut != tail:
        return cut
    tail = _REFLEXIVE.sub("", tail)
    cut = _ADJECTIVE.sub("", tail)
    if cut != tail:
        return _PARTICIPLE.sub("", cut)
    cut = _VERB.sub("", tail)
    return cut if cut != tail else _NOUN.sub("", tail)
