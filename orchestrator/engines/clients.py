"""The coding clients as data: how a session is started and resumed, and where their output has
what. No code.

Each was seen to behave so in the version that it names; `make soak` runs that version. In an
argument, {prompt} is the prompt, {prompt_file} and {system_file} are files that hold it and the
system text, {session} is the session, {model} the model, {root} the workspace of the memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from orchestrator.engines.output_rules import Rule

# What any program needs of our environment. Everything else is some other agent's, or a secret of
# nobody's concern.
BASE = (
    "PATH HOME USER LOGNAME SHELL LANG LC_* TZ TERM TMPDIR XDG_* SSL_CERT_FILE"
    " SSL_CERT_DIR NODE_EXTRA_CA_CERTS HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY"
    " http_proxy https_proxy no_proxy all_proxy"
).split()


class Client(NamedTuple):
    """What is known of a client.

    `permissions`: what is added to its arguments so that it may do without asking: `own`, nothing,
    as its maker set it; `memory`, the least that lets its agent use the shell of the memory; `all`,
    everything. `totals`: it reports what its whole session used, not this step.
    """

    name: str
    program: str
    start: tuple[str, ...]
    resume: tuple[str, ...] = ()  # none: a step starts again, with what was said so far
    model: tuple[str, ...] = ()
    system: tuple[str, ...] = ()  # none: the system text comes before the prompt
    # asks for a structured result; {schema}, {schema_file}
    report: tuple[str, ...] = ()
    permissions: Mapping[str, tuple[str, ...]] = {"own": (), "memory": (), "all": ()}
    form: str = "text"  # or "lines" of JSON, or one "json" text
    rules: tuple[Rule, ...] = ()
    lost: str = ""  # what it says where it does not have the session
    totals: bool = False
    keeps: tuple[str, ...] = ()  # the variables of its own, and of its providers
    sets: Mapping[str, str] = {}
    verified: str = ""
    install: str = ""


CLAUDE_CODE = Client(
    name="claude-code",
    program="claude",
    start=("-p", "--output-format", "stream-json", "--verbose"),
    resume=("-p", "--output-format", "stream-json", "--verbose", "--resume", "{session}"),
    model=("--model", "{model}"),
    system=("--append-system-prompt-file", "{system_file}"),
    report=("--json-schema", "{schema}"),
    permissions={
        "own": (),
        "memory": ("--allowedTools=Bash(synapse *)",),
        "all": ("--dangerously-skip-permissions",),
    },
    form="lines",
    rules=(
        Rule({"type": "system", "subtype": "init"}, session="session_id", model="model"),
        Rule(
            {"type": "result"},
            text="result",
            session="session_id",
            stop="stop_reason",
            # The first two are of this session and its sub-agents; `usage` leaves the latter out.
            cost="model_usage_since_last_result.*.costUSD | total_cost_usd",
            input=(
                "model_usage_since_last_result.*.inputTokens | usage.input_tokens",
                (
                    "model_usage_since_last_result.*.cacheReadInputTokens |"
                    " usage.cache_read_input_tokens"
                ),
                (
                    "model_usage_since_last_result.*.cacheCreationInputTokens |"
                    " usage.cache_creation_input_tokens"
                ),
            ),
            output=("model_usage_since_last_result.*.outputTokens | usage.output_tokens",),
            cached=(
                (
                    "model_usage_since_last_result.*.cacheReadInputTokens |"
                    " usage.cache_read_input_tokens"
                ),
            ),
            written=(
                (
                    "model_usage_since_last_result.*.cacheCreationInputTokens |"
                    " usage.cache_creation_input_tokens"
                ),
            ),
            report="structured_output",
        ),
        Rule({"type": "result", "is_error": True}, error="errors.* | result | subtype"),
    ),
    lost="No conversation found",
    keeps=(
        "ANTHROPIC_*",
        "CLAUDE_CONFIG_DIR",
        "CLAUDE_CODE_USE_*",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "AWS_*",
        "DISABLE_*",
    ),
    sets={"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
    verified="2.1.329",
    install="npm install -g @anthropic-ai/claude-code",
)

# What the memory's commands write in a workspace. The rest is the operator's: who may do what
# (`agents/`, `synapse.yaml`), what agents are asked (`prompts/`, `team.yaml`), and `runs/`.
WRITTEN = (
    ".index",
    "archive",
    "entries",
    "inbox",
    "journal",
    "knowledge",
    "messages",
    "quarantine",
    "staging",
)

CODEX = Client(
    name="codex",
    program="codex",
    # A login shell would read the machine's profile, and with it lose our PATH.
    start=("exec", "--json", "--skip-git-repo-check", "-c", "allow_login_shell=false", "-"),
    resume=(
        "exec",
        "resume",
        "--json",
        "--skip-git-repo-check",
        "-c",
        "allow_login_shell=false",
        "{session}",
        "-",
    ),
    model=("--model", "{model}"),
    report=("--output-schema", "{schema_file}"),
    permissions={
        "own": (),
        "memory": (
            "-c",
            'sandbox_mode="workspace-write"',
            "-c",
            "sandbox_workspace_write.writable_roots=["
            + ", ".join(f'"{{root}}/{name}"' for name in WRITTEN)
            + "]",
        ),
        "all": ("--dangerously-bypass-approvals-and-sandbox",),
    },
    form="lines",
    rules=(
        Rule({"type": "thread.started"}, session="thread_id"),
        Rule({"type": "item.completed", "item.type": "agent_message"}, text="item.text"),
        Rule(
            {"type": "turn.completed"},
            input=("usage.input_tokens",),
            output=("usage.output_tokens",),
            cached=("usage.cached_input_tokens",),
            written=("usage.cache_write_input_tokens",),
        ),
        Rule(
            {"type": "turn.failed"}, error="error.message"
        ),  # an `error` before it may be one that it got over
    ),
    lost="no rollout found",
    totals=True,
    keeps=("OPENAI_*", "CODEX_*", "AZURE_OPENAI_*"),
    verified="0.169.0",
    install="npm install -g @openai/codex",
)

GEMINI = Client(
    name="gemini",
    program="gemini",
    start=("--output-format", "stream-json"),
    resume=("--output-format", "stream-json", "--resume", "{session}"),
    model=("--model", "{model}"),
    permissions={
        "own": (),
        "memory": ("--allowed-tools=run_shell_command(synapse)",),
        "all": ("--approval-mode", "yolo"),
    },
    form="lines",
    rules=(
        Rule({"type": "init"}, session="session_id", model="model"),
        Rule({"type": "tool_use"}, clears=True),
        Rule({"type": "message", "role": "assistant"}, text="content", continues=True),
        Rule(
            {"type": "result"},
            input=("stats.input_tokens",),
            output=("stats.output_tokens",),
            cached=("stats.cached",),
        ),
        Rule({"type": "result", "status": "error"}, error="error.message"),
    ),
    lost="Error resuming session",
    keeps=("GEMINI_*", "GOOGLE_*"),
    sets={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
    verified="0.61.0",
    install="npm install -g @google/gemini-cli",
)

# Embedded (--local), not through its gateway: there the agent would run in a process that is not
# ours, with another's
# environment. Without an id of ours, every run would share the session of the client's agent. A
# session that it does
# not have it begins, and does not say so. How long it may take is for us to say.
_AGENT = (
    "agent --local --json --agent main --session-id {session} --message-file"
    " {prompt_file} --timeout 0"
)

OPENCLAW = Client(
    name="openclaw",
    program="openclaw",
    start=tuple(_AGENT.split()),
    resume=tuple(_AGENT.split()),
    model=("--model", "{model}"),
    form="json",
    rules=(
        Rule(
            text="payloads.*.text",
            session="meta.agentMeta.sessionId",
            model="meta.agentMeta.model",
            cost="meta.agentMeta.usage.cost.total",
            input=(
                "meta.agentMeta.usage.input",
                "meta.agentMeta.usage.cacheRead",
                "meta.agentMeta.usage.cacheWrite",
            ),
            output=("meta.agentMeta.usage.output",),
            cached=("meta.agentMeta.usage.cacheRead",),
            written=("meta.agentMeta.usage.cacheWrite",),
            error="meta.error.message",
        ),
    ),
    keeps=(
        "OPENCLAW_*",
        "ANTHROPIC_*",
        "OPENAI_*",
        "GEMINI_*",
        "GOOGLE_*",
        "OPENROUTER_*",
        "OLLAMA_*",
    ),
    verified="2026.9.6",
    install="npm install -g openclaw (needs Node 24.16 or 26.1)",
)
