"""Tools that users register, and those of MCP servers: schemas, calls, results."""

from orchestrator.tools.calls import Shares as Shares
from orchestrator.tools.functions import Partial as Partial
from orchestrator.tools.functions import tool_of as tool_of
