"""What each word of a text is, and where one may pause."""

from synapse.consolidate.words import clauses, sentences, stems


def keys(text):
    return [[word.key for word in sentence] for sentence in sentences(text)]


def kinds(text):
    return {word.key: word.kind for sentence in sentences(text) for word in sentence}


def test_sentences_end_at_stops_and_lines():
    text = "- Use `a. b`, not c!\n2. Stop; go (now)? \n\n# Then: rest"
    assert keys(text) == [
        ["use", "`a. b`", "not", "c"],
        ["2"],
        ["stop"],
        ["go", "now", "?"],
        ["then", "rest"],
    ]
    assert [[word.key for word in part] for part in clauses(sentences(text)[0])] == [
        ["use", "`a. b`"],
        ["not", "c"],
    ]


def test_a_unit_goes_to_its_number():
    assert keys("30s, 30 seconds; 30 ms; 5% and 5 percent; 20 things; 10:30 UTC") == [
        ["30 s", "30 s"],
        ["30 ms"],
        ["5 %", "5 %"],
        ["20", "things"],
        ["10:30", "UTC"],
    ]
    assert keys("wait 3. s is small") == [["wait", "3"], ["s", "is", "small"]]


def test_what_has_to_be_kept():
    found = kinds(
        "ask Mira whether v2.1 must run on web-1 at http://x.example/a?b or `x`, three times"
    )
    slots = {key for key, kind in found.items() if kind == "slot"}
    assert slots == {"mira", "v2.1", "web-1", "http://x.example/a?b", "`x`", "3 time"}
    assert {key for key, kind in found.items() if kind == "operator"} == {"must", "or"}


def test_negations_are_told_from_what_they_hang_on():
    assert keys("Don't, can’t, cannot, won't") == [
        ["does", "not", "can", "not", "can", "not", "will", "not"]
    ]


def test_stems_say_what_words_mean():
    assert stems(sentences("Restarting crashes the stopped boxes' caches.")[0]) == stems(
        sentences("restart crash stop box cach")[0]
    )


def test_hidden_and_strange_characters_are_words_of_their_own():
    assert keys("a\u200bb c") == [["a\u200bb", "c"]]
    assert keys("x -> y") == [["x", "->", "y"]]
    assert keys("") == keys(" \n ") == keys("...") == []
