"""What is true in a run: values of facts over time, the texts that state them, the tasks. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from random import Random

from scenarios.data.schema import Fact, Happening, Job, Scenario, Size

# What observations and replies are made of. No digit in it, so that it never holds a value.
_WORDS = (
    "the header was rendered again after the layout had settled and the margin of the"
    " second column was compared with the sketch while the console stayed quiet so the"
    " next check went on to the footer where three links point at pages that exist and"
    " one loads a font from the old path which is served from the cache until it is"
    " replaced then the form was sent with an empty field and the message under it was"
    " read aloud by the tool for screens as it should be and the picture on top was"
    " drawn at half its size without a visible loss on a slow connection afterwards the"
    " list of open points was gone through in order and nothing was found that others"
    " would have to know"
).split()


_FILLERS: dict[int, str] = {}  # by how many words


_STEP = 20  # sizes are rounded to so many words, so that few texts are counted


_HEX = "0123456789abcdef"


QUOTES = " \t`'\"-*."  # what models put around a name or a value


_CANDIDATE = re.compile(r"(?<![\w-])[a-z]?[0-9][0-9a-z]*(?![\w-])")


# how many deviations the ninth decile lies above the median
_SPREAD = 1.2815515655446004


SHORT = 16_384  # characters of a text that is looked through once


class Leak(Exception):
    """A value stands where nobody should find it."""


def drawn(size: Size, random: Random) -> int:
    """Return a size by its distribution; never more than three times its ninth decile."""
    if size.p50 == size.p90:
        return round(size.p50)
    spread = math.log(size.p90 / size.p50) / _SPREAD
    return max(1, round(min(size.p50 * math.exp(spread * random.gauss(0, 1)), 3 * size.p90)))


def noise(tokens: int, random: Random) -> str:
    """Return a text of about so many tokens about nothing in particular, each time another."""
    chosen = random.choices(_WORDS, k=max(tokens - 2, 3))
    return f"{upper(' '.join(chosen))}."


def filler(tokens: int) -> str:
    """Return a text of about so many tokens that says nothing."""
    return _filled(max(round(tokens / _STEP), 1) * _STEP if tokens >= _STEP / 2 else tokens)


def _filled(count: int) -> str:
    if count not in _FILLERS:
        repeats, remainder = divmod(count, len(_WORDS))
        text = " ".join([*(_WORDS * repeats), *_WORDS[:remainder]])
        _FILLERS[count] = text[:1].upper() + text[1:] + "." if text else ""
    return _FILLERS[count]


class Truth:
    """The values of facts: what each is now, what it was, and how it is said."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self._name = f"{scenario.id} {seed}"
        self.facts = {fact.id: fact for fact in scenario.facts}
        self._by_subject = {said(fact.subject): fact.id for fact in scenario.facts}
        self.values: dict[str, list[str]] = {}
        self.versions: dict[str, str] = {}  # value -> fact@version
        self._taken: set[str] = set()
        for fact in scenario.facts:
            self.change(fact.id)

    def change(self, id: str) -> str:
        """Give a fact its next value."""
        fact, before = self.facts[id], self.values.setdefault(id, [])
        random = Random(f"{self._name} {id} {len(before)}")
        value = _value(fact, random)
        while value in self._taken:
            value = _value(fact, random)
        self._taken.add(value)
        self.versions[value] = f"{id}@{len(before)}"
        before.append(value)
        return value

    def lie(self, id: str) -> str:
        """Return a value that a fact never has."""
        random = Random(f"{self._name} {id} lie")
        value = _value(self.facts[id], random)
        while value in self._taken:
            value = _value(self.facts[id], random)
        self._taken.add(value)
        self.versions[value] = f"{id}@!"
        return value

    def now(self, id: str) -> str:
        return self.values[id][-1]

    def version(self, id: str) -> str:
        """Return the version of a fact that is true now."""
        return f"{id}@{len(self.values[id]) - 1}"

    def named(self, subject: str) -> str | None:
        """Return the fact of this subject."""
        return self._by_subject.get(said(subject))

    def state(self, id: str, variant: int = 0, value: str | None = None) -> str:
        """Return a sentence that says what the value is."""
        fact = self.facts[id]
        unit = f" {fact.unit}" if fact.unit else ""
        stated = value or self.now(id)
        forms = (
            f"{upper(fact.subject)} is {stated}{unit}.",
            f"Use {stated}{unit} for {fact.subject}.",
            f"{upper(fact.subject)}: {stated}{unit}.",
        )
        return forms[variant % len(forms)]

    def facts_in(self, text: str) -> list[str]:
        """Return the versions whose values stand in a text, in their order, each once."""
        return list(
            dict.fromkeys(
                self.versions[candidate]
                for candidate in _candidates(text)
                if candidate in self.versions
            )
        )

    def lint(self, texts: Iterable[str]) -> None:
        """Leak, if a value stands in one of these texts, where no value belongs."""
        for text in texts:
            if stated := self.facts_in(text):
                raise Leak(f"{', '.join(stated)} can be read in {text[:80]!r}")


def _candidates(text: str) -> tuple[str, ...]:
    """Return words that may be values: every value has a digit as its first or second character."""
    if len(text) <= SHORT:
        return _short_candidates(text)
    # many long texts share their lines
    return tuple(chain.from_iterable(map(_short_candidates, text.splitlines())))


@lru_cache(8_192)
def _short_candidates(text: str) -> tuple[str, ...]:
    return tuple(_CANDIDATE.findall(text))


def said(subject: str) -> str:
    """Return a subject as it is compared: however it is spaced, and with or without its article."""
    return " ".join(subject.lower().split()).removeprefix("the ")


def remark(event: Happening, fact: Fact) -> str:
    """Return what is said of a fact without its value."""
    return str(event.says).replace("{subject}", fact.subject)


def upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _value(fact: Fact, random: Random) -> str:
    if fact.value == "int":
        return str(random.randint(fact.low, fact.high))
    first = random.choice("abcdef") + str(random.randint(0, 9))
    return first + "".join(random.choice(_HEX) for _ in range(5))


def brief(scenario: Scenario, job: Job, steps: Mapping[str, int], truth: Truth) -> str:
    """Return the text of a task, with those of all that its agent gives out, stage by stage. It
    names what is needed and never a value.
    """
    lines = [job.text, f"Task: {job.id}"]
    if job.needs:
        lines.append(f"Needs: {'; '.join(truth.facts[need].subject for need in job.needs)}")
        places = {truth.facts[need].namespace: truth.facts[need].priority for need in job.needs}
        lines.append(
            f"Findings go to:"
            f" {', '.join(f'{name} ({priority})' for name, priority in places.items())}"
        )
    if steps.get(job.id):
        lines.append(
            f"Steps: {steps[job.id]}{', with what it needs at every step' if job.acts else ''}"
        )
    if job.passes:
        lines.append("Pass on: what it needed, word for word, in the last message")
    if scenario.given_by(job.id):
        lines.append(
            "Give out the tasks of a stage word for word, each to the agent in its"
            " brackets, and wait for"
        )
        lines.append("all of them before the next stage.")
    for number, stage in enumerate(stages(scenario.given_by(job.id)), 1):
        lines.append(f"Stage {number}:")
        for each in stage:
            first, *rest = brief(scenario, each, steps, truth).split("\n")
            lines += [f"- [{each.agent}] {first}", *(f"  {line}" for line in rest)]
    return "\n".join(lines)


def stages(jobs: Sequence[Job]) -> list[list[Job]]:
    """Return the tasks in the order in which they can be done: each stage needs only those before
    it.
    """
    from scenarios.data.schema import matching

    remaining, done = list(jobs), set[str]()
    result: list[list[Job]] = []
    while remaining:
        ids = [job.id for job in remaining]
        free = [job for job in remaining if not any(matching(glob, ids) for glob in job.after)]
        result.append(free or remaining)
        done |= {job.id for job in result[-1]}
        remaining = [job for job in remaining if job.id not in done]
    return result


def steps_of(scenario: Scenario, seed: int) -> dict[str, int]:
    """Return the number of steps of each task under this seed, the same in every arm."""
    return {
        job.id: drawn(job.steps, Random(f"{scenario.id} {seed} steps {job.id}"))
        for job in scenario.jobs
    }


def texts(scenario: Scenario, steps: Mapping[str, int], truth: Truth) -> list[str]:
    """Return all texts that an agent may read without being told: no value may stand in them."""
    facts = [f"{fact.subject} {fact.namespace} {fact.unit}" for fact in scenario.facts]
    briefs = [brief(scenario, job, steps, truth) for job in scenario.jobs]
    remarks = [
        remark(event, truth.facts[event.write]) for event in scenario.happenings if event.says
    ]
    return [scenario.title, filler(2 * len(_WORDS)), *facts, *remarks, *briefs]
