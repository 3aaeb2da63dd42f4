"""Words: what is looked for, what is left out, and which forms of a word are one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synapse.index.full_text.terms import (
    MAX_WORDS,
    STOP,
    asks_for_answers,
    folded,
    places,
    root,
    russian,
    sought,
)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("What did the lead decide about users?", ["lead", "decide", "users"]),
        ("user's /v2/users, USERS", ["user", "v2"]),
        ("who is on?", ["who", "is", "on"]),
        ('"AND" OR (NEAR* -x:y', ["near", "x"]),
        ("Кто решил про миграцию базы?", ["реш", "миграц", "баз"]),
        ("東京 deploy", ["東", "京", "deploy"]),
        ("\0 * 🧠", []),
    ],
)
def test_a_question_is_its_telling_words(question, words):
    assert sought(question) == words


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Can you give me a comprehensive summary of the parser's history?", ["parser", "history"]),
        ("Please summarize how the gateway has developed over time", ["gateway"]),
        ("Дай краткую сводку по миграции", ["миграц"]),
        ("Summarize our conversations", ["summarize", "conversations"]),
        ("Where does summary.py write the summary?", ["summary", "py", "write"]),
        ("Give me the time of the deploy", ["give", "time", "deploy"]),
    ],
)
def test_what_asks_for_a_summary_is_not_looked_for(question, words):
    assert sought(question) == words


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("Can you summarize how the cache works?", True),
        ("What did you recommend for the retries?", True),
        ("how had ben explained the outage", True),
        ("Что Бен посоветовал про миграцию?", True),
        ("Who calls summarize() at a compaction?", False),
        ("Could you recommend a library?", False),
        ("When does the answer arrive?", False),
    ],
)
def test_some_questions_want_answers(question, wanted):
    assert asks_for_answers(question) == wanted


@pytest.mark.parametrize(
    "forms",
    [
        "решение решения решением решений",
        "миграция миграции миграцию миграций миграциями",
        "развёртывание развертывания развертыванием",
        "ключ ключи ключей ключами ключом",
        "решили решил решила решить",
        "важный важная важного важными",
        "работает работали работать работающий",
        "новость новости новостей",
    ],
)
def test_forms_of_a_russian_word_are_one(forms):
    assert len({folded(form) for form in forms.split()}) == 1


def test_different_russian_words_stay_different():
    words = "миграция метрика сервер сервис ключ решение ошибка важность".split()
    assert len({russian(word) for word in words}) == len(words)


def test_ascii_is_left_to_the_tokenizer():
    assert folded("Users ENDPOINTS moved") == "Users ENDPOINTS moved"


def test_forms_are_found_where_they_stand():
    text = "The Endpoint moved; endpoints moving. Решения приняты"
    found = [
        text[start:end] for start, end in places(text, frozenset(sought("endpoint move решение")))
    ]
    assert found == ["Endpoint", "moved", "endpoints", "moving", "Решения"]


def test_roots_do_not_swallow_short_words():
    assert [root(word) for word in ("bed", "ring", "use", "was")] == ["bed", "ring", "use", "was"]
    assert root("stopped") == root("stopping") == root("stop")
    assert root("policies") == root("policy")
    assert root("gateways") == root("gateway")


def test_stop_words_hold_no_name_of_a_month():
    assert "may" not in STOP


@given(st.text(max_size=300))
def test_any_text_has_words(text):
    assert len(sought(text)) <= MAX_WORDS
    assert all(word.isalnum() for word in sought(text))
    assert all(
        0 <= start < end <= len(text)
        for start, end in places(text, frozenset(sought(text)) | {"a"})
    )
    folded(text)


@pytest.mark.parametrize(
    ("word", "cut"),
    [
        ("hummed", "hum"),
        ("dropped", "drop"),
        ("added", "add"),
        ("calls", "call"),
        ("called", "call"),
        ("passed", "pass"),
        ("running", "run"),
        ("cities", "cit"),
        ("city", "cit"),
        ("red", "red"),
        ("bees", "bee"),
        ("ties", "tie"),
    ],
)
def test_a_word_without_its_ending(word, cut):
    assert root(word) == cut
