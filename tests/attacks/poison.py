"""Poisoned entries of our own writing: what each asks for, in the words of each family. Holds no
test.
"""

import json
from pathlib import Path

_DATA = json.loads(Path(__file__).with_name("poisoned.json").read_text(encoding="utf-8"))


def poisoned():
    """Yield family and text of every poisoned entry; each has a word that is in no other."""
    number = 0
    for family, texts in _DATA["families"].items():
        for text in texts:
            for deed in _DATA["deeds"]:
                yield family, f"{text.format(deed=deed)}\nmark{number:04d}x"
                number += 1
