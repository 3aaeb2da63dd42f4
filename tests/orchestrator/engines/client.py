"""A client to test with: a real program, that does as its prompt's first word says. No test.

client.py [--resume ID] ...    the prompt on standard input; what it says, as JSON lines, on
standard output
"""

import json
import os
import sys
import time


def say(**piece):
    print(json.dumps(piece), flush=True)


def main(words):
    resumed = words[words.index("--resume") + 1] if "--resume" in words else None
    if resumed == "lost":
        print("there is no such session", file=sys.stderr)
        return 1
    prompt = sys.stdin.read()
    what = prompt.split(None, 1)[0] if prompt.split() else "say"
    say(type="begin", session=resumed or "s-1", folder=os.getcwd())
    if what == "hang":
        time.sleep(600)
    if what == "fail":
        print("it broke\nError 429: slow down" if "busy" in prompt else "it broke", file=sys.stderr)
        return 3
    if what == "garbage":
        os.write(1, b'\x00\xff{not json\n{"type": \n[1]\nnull\n' + b"x" * 100_000 + b"\n")
    if what == "nothing":
        return 0
    if what == "flood":
        while True:
            os.write(1, b"y" * 65_536)
    if what == "huge":
        os.write(1, b'{"type": "noise", "of": "' + b"z" * 40_000_000 + b'"}\n')
    text = (
        json.dumps(dict(os.environ))
        if what == "env"
        else json.dumps(words)
        if what == "words"
        else prompt
    )
    say(type="end", text=text, used={"in": 100, "out": 7, "cached": 40}, cost=0.25, blocked=None)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
