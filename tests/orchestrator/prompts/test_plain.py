"""Templates that are filled in without Jinja say what Jinja would, and no more of them are."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.prompts.fence import inline, quoted
from orchestrator.prompts.plain import LONGEST, fill
from orchestrator.prompts.sandbox import Sandbox
from orchestrator.prompts.templates import Templates

VALUES = {
    "a": "A {{ b }}\n",
    "long_name2": " {% x %} ",
    "agent": SimpleNamespace(id="eng", name=None, inner=SimpleNamespace(x="deep")),
    "empty": "",
    "none_here": None,
    "number": 7,
}
# what templates are made of, and what looks like it
PIECES = (
    *("{{ a }}", "{{a}}", "{{- a }}", "{{ a -}}", "{{-a-}}", "{{ agent.id }}", "{{ empty }}"),
    *("{{ agent.inner.x }}", "{{ long_name2 }}", "{{ number }}", "{{ none_here }}", "{{\na\n}}"),
    *(
        "{{ agent.name }}",
        "{{ agent.gone }}",
        "{{ gone }}",
        "{{ agent.__class__ }}",
        "{{ a.upper }}",
    ),
    *(
        "{{ a|upper }}",
        "{{ 'a' }}",
        "{{ a ~ a }}",
        "{{ none }}",
        "{{ true }}",
        "{{+ a }}",
        "{{ a b }}",
    ),
    *(
        "{% if a %}",
        "{% endif %}",
        "{# a #}",
        "{% raw %}",
        "{% endraw %}",
        "{{",
        "}}",
        "{",
        "}",
        "%}",
    ),
    *(
        " ",
        "\n",
        "\n\n",
        "\t",
        "\r\n",
        "\r",
        "\x0b",
        "\x1c",
        "\u2028",
        "text",
        "-",
        "#",
        "# {{ a }}",
    ),
)


def jinja(source, values=VALUES):
    """Return what Jinja prints for a template; None where it refuses it."""
    sandbox = Sandbox(lambda name: (source, name, None), {"quoted": quoted, "inline": inline})
    try:
        return sandbox.text_of("own.md.j2", values)
    except Exception:
        return None


@settings(max_examples=1_000, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_what_is_filled_in_is_what_jinja_prints(source):
    text = fill(source, VALUES)
    assert text is None or text == jinja(source)


@pytest.mark.parametrize(
    "source", ["{{ a }}", "x\n{{- a -}}\ny", "no name", "{{ agent.inner.x }}{{a}}"]
)
def test_names_alone_are_filled_in(source):
    assert fill(source, VALUES) == jinja(source) is not None


@pytest.mark.parametrize("name", ["client", "client-more", "wake", "found", "held", "memory"])
def test_frames_of_entries_ask_for_names_alone(name):
    templates = Templates()
    templates.has(name)
    _, source = templates._sources[f"{name}.md.j2"]
    values = {
        key: f"[{key}]" for key in ("opening", "closing", "view", "news", "entries", "project")
    }
    values |= {"agent": SimpleNamespace(id="eng")}
    assert fill(source, values) == jinja(source, values) is not None


def test_a_text_that_grows_too_long_is_left_to_the_sandbox():
    assert fill("{{ a }}", {"a": "x" * LONGEST}) is not None
    assert fill("{{ a }}{{ a }}", {"a": "x" * LONGEST}) is None
