"""Runs the Python of a guide in the environment of its framework, as it stands or with a fault.

`playing.py PAGE [--async] [--fault FAULT]`, in a folder with a workspace. Holds no test.
"""

import argparse
import fcntl
import os
import re
import shutil
import sys
from pathlib import Path

import synapse
from synapse import AgentMemory
from synapse.adapters.conversation import Conversation
from synapse.errors import StoreBusy

IN_A_LOOP = {
    "langchain": ("agent.invoke(task)", "asyncio.run(agent.ainvoke(task))"),
    "pydantic-ai": ("agent.run_sync(task)", "asyncio.run(agent.run(task))"),
    "openai-agents": (
        "Runner.run_sync(agent, task, **run_options(memory))",
        "asyncio.run(Runner.run(agent, task, **run_options(memory)))",
    ),
}
WRITES = re.compile(r'^    team\.as_agent\("cto"\)\.append\(.*\n', re.M)
READS = re.compile(r'^print\(team\.as_agent\("cto"\).*\n', re.M)
TEAM = 'team.as_agent("eng")'


def refused(*args, **named):
    raise StoreBusy("another process holds the lock")


def strike(fault):
    """Let the memory fail from now on."""
    if fault == "raises":
        AgentMemory.briefing = AgentMemory.follow = AgentMemory.append = refused
    elif fault == "folder gone":
        shutil.rmtree("shared-memory")
    elif fault == "lock held":
        strike.held = os.open("shared-memory/journal/lock", os.O_RDWR)
        fcntl.flock(strike.held, fcntl.LOCK_EX)
    elif fault == "server down":
        strike.transport.address = "http://127.0.0.1:9"  # where nobody listens
        strike.transport.timeout = 0.5


def remote():
    memory = synapse.connect(os.environ["SERVER"], os.environ["TOKEN"])
    strike.transport = memory.transport
    return memory


def replaced(code, old, new):
    assert old in code, old
    return code.replace(old, new)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page", type=Path)
    parser.add_argument("--in-a-loop", action="store_true")
    parser.add_argument("--remote", action="store_true")
    parser.add_argument("--fault")
    args = parser.parse_args()
    (code,) = re.findall(r"^```python\n(.*?)^```$", args.page.read_text(), re.M | re.S)
    if args.in_a_loop:
        code = "import asyncio\n" + replaced(code, *IN_A_LOOP[args.page.stem])
    if args.remote or args.fault == "server down":
        code = replaced(code, TEAM, "remote()")
    if args.fault:
        code = READS.sub("", WRITES.sub("    strike()\n", code))
        assert "strike()" in code
    # a machine under load takes as long as it takes
    Conversation.__init__.__kwdefaults__["deadline"] = 60.0
    exec(code, {"strike": lambda: strike(args.fault), "remote": remote})
    sys.stdout.flush()


if __name__ == "__main__":
    main()
