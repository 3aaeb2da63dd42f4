"""What the calls of each client's tools change, read from their arguments."""

import pytest

from orchestrator.files.touch import Edit
from orchestrator.plugin.facts import load
from orchestrator.plugin.facts.event import read_event

PATCH = """*** Begin Patch
*** Update File: src/db.py
@@ class Db
 kept
-old line
+new line
@@
-second
+other
*** Add File: new.txt
+hello
*** Delete File: gone.txt
*** End Patch
"""


@pytest.mark.parametrize(
    ("client", "tool", "arguments", "edits"),
    [
        (
            "claude-code", "Edit",
            {"file_path": "/a.py", "old_string": "x", "new_string": "y"},
            [("/a.py", "x", "y")],
        ),
        ("claude-code", "Write", {"file_path": "/a.py", "content": "y"}, [("/a.py", None, "y")]),
        (
            "claude-code", "MultiEdit",
            {
                "file_path": "/a.py",
                "edits": [
                    {"old_string": "x", "new_string": "y"},
                    {"old_string": "p", "new_string": "q"},
                ],
            },
            [("/a.py", "x", "y"), ("/a.py", "p", "q")],
        ),
        ("claude-code", "Read", {"file_path": "/a.py"}, []),
        ("claude-code", "Edit", {"file_path": "/a.py", "old_string": 7}, [("/a.py", None, "")]),
        ("claude-code", "MultiEdit", {"file_path": "/a.py", "edits": ["x"]}, []),
        ("gemini", "replace", {"file_path": "a.py", "old_string": "x", "new_string": "y"}, [("a.py", "x", "y")]),
        ("gemini", "write_file", {"file_path": "a.py", "content": "y"}, [("a.py", None, "y")]),
        (
            "openclaw", "edit",
            {"path": "a.py", "edits": [{"oldText": "x", "newText": "y"}]},
            [("a.py", "x", "y")],
        ),
        ("openclaw", "edit", {"path": "a.py", "oldText": "x", "newText": "y"}, [("a.py", "x", "y")]),
        ("claude-code", "NotebookEdit", {"notebook_path": "/a.ipynb", "new_source": "x"}, []),
        ("codex", "Bash", {"command": "cat src/db.py"}, []),
        (
            "codex", "Bash",
            {"command": f"apply_patch <<'EOF'\n{PATCH.replace('@@ class Db', '@@')}EOF\n"},
            [
                ("src/db.py", "kept\nold line", "kept\nnew line"),
                ("src/db.py", "second", "other"),
                ("new.txt", "", "hello"),
            ],
        ),
        (
            "codex", "apply_patch", {"command": PATCH},
            [
                ("src/db.py", "kept\nold line", "kept\nnew line"),
                ("src/db.py", "second", "other"),
                ("new.txt", "", "hello"),
            ],
        ),
    ],
)  # fmt: skip
def test_each_client_s_edits_are_read(client, tool, arguments, edits):
    facts = load(client)
    names, hook = (
        facts.fields,
        next(name for name, its in facts.events.items() if its.name == "before"),
    )
    payload = {
        names["event"]: hook,
        names["session"]: "s",
        names["tool"]: tool,
        names["arguments"]: arguments,
    }
    assert list(read_event(facts, payload).edits) == [Edit(*edit) for edit in edits]
