"""Tools: the memory as a model calls it. Answers are short, and a mistake is a text as well.

Nothing that a model writes raises. Agents of the orchestrator and MCP clients call these.
"""

from __future__ import annotations

from synapse.tools.answer import CAPSULE as CAPSULE
from synapse.tools.blockers import UNNAMED as UNNAMED
from synapse.tools.blockers import blocker_of as blocker_of
from synapse.tools.catalog import CLIENTS as CLIENTS
from synapse.tools.catalog import TOOLS as TOOLS
from synapse.tools.catalog import offered as offered
from synapse.tools.functions import BRIEFING as BRIEFING
from synapse.tools.tool import Arguments as Arguments
from synapse.tools.tool import Tool as Tool
from synapse.tools.tool import ToolProblem as ToolProblem
from synapse.tools.tool import call as call
from synapse.tools.tool import checked as checked
