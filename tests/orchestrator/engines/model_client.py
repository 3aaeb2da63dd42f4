"""The smallest client there is: asks a model once, and prints its reply. A program for the
contract; no test.
"""

import json
import sys
from urllib.request import Request, urlopen


def main(url, model):
    message = {"role": "user", "content": sys.stdin.read()}
    body = json.dumps({"model": model, "max_tokens": 1_000, "messages": [message]}).encode()
    with urlopen(
        Request(f"{url}/v1/messages", body, {"content-type": "application/json"}), timeout=60
    ) as reply:
        print(json.dumps(json.load(reply)))


if __name__ == "__main__":
    main(*sys.argv[1:])
