"""The supervisor: spawns agents with their view of memory in the prompt, writes back, wakes, and accounts."""

from orchestrator.supervisor import Supervisor
from orchestrator.task import Result, Task

__all__ = ["Result", "Supervisor", "Task"]
