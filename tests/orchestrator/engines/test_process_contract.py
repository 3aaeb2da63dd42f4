"""A program keeps the contract of an engine."""

import sys
from pathlib import Path

import pytest

from orchestrator.engines.process import Process
from orchestrator.testing.contract import EngineContract
from tests.model_server import ModelServer

CLIENT = Path(__file__).with_name("model_client.py")
SENT = ("usage.input_tokens", "usage.cache_read_input_tokens", "usage.cache_creation_input_tokens")
RULE = {
    "text": "content.*.text",
    "model": "model",
    "stop": "stop_reason",
    "input": SENT,
    "output": ("usage.output_tokens",),
    "cached": SENT[1:2],
    "written": SENT[2:],
}


class TestProcess(EngineContract):
    @pytest.fixture(autouse=True)
    def servers(self):
        self.begun = []
        yield
        for server in self.begun:
            server.stop()

    def make_engine(self, script):
        self.begun.append(ModelServer(script, count=lambda text: len(text.split())).start())
        command = [sys.executable, "-S", str(CLIENT), self.begun[-1].url, "scripted"]
        return Process(command, form="lines", rules=[RULE], grace=0.5)
