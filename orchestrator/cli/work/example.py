"""The texts of the example workspace that `orchestrator init` writes. No code."""

# ruff: noqa: E501  (files of the user keep their lines)

SETTINGS = """\

# What runs may take; a line without its `#` holds from then on. Levels: run, tree, department, day.
limits:
  run: {turns: 40, seconds: 3600}
  # tree: {tokens: 2000000, usd: 5.0}
  # day: {usd: 20.0, live: 30}
# What models cost that are on no list, in dollars per million tokens.
# prices: {my-model: {input: 3.0, output: 15.0}}
# When `orchestrator up` tidies the memory, and where a snapshot goes after it; keep: how many stay, else all.
schedule: {zone: UTC, defrag: "02:30"}
# backup: {dir: ~/snapshots, keep: 14}
"""

TEAM = """\
# A team for `orchestrator team --project P --brief "..."`.
# The CTO sets the goal, the lead plans, the engineers work side by side, QA tests, the lead reports.
cto: cto
lead: lead
engineers: [eng-backend, eng-frontend]
qa: qa

# auto: anthropic or openai, where ANTHROPIC_API_KEY or OPENAI_API_KEY is set; else no work begins. Or any other
# engine: claude-code, codex, gemini, openclaw, process. `engine:` in an agent's file goes before this.
engine: auto
models:
  anthropic: claude-sonnet-5
  openai: gpt-5.4-mini

# What scripted agents say: a function of yours, or these, which tell what their prompts showed them.
script: orchestrator.example_team:play

# Tokens that the memory may take in each prompt; or auto: what is critical, and what is expected to save more than
# it costs.
view_budget: auto

# Tools for the memory, where models do the work: auto, for who gives out work, and where more concerns a task than
# its prompt has room for; or always; or never.
memory_tools: auto

# For all of it together. Without a price for the model, a limit on money refuses it.
# max_usd: 2.0
# max_tokens: 500000
"""

_AGENT = """\
# {about}
agent:
  id: {id}
  role: {role}
  department: {department}
  # projects: [hello]       # what it is on for good; a run of a project is on it as long as it lasts
  # engine: claude-code     # what runs it; else what the team or the command says
  # model: claude-sonnet-5
subscriptions:
  # What it hears of, and where it may write, follow from its role and from what it belongs to. To say it yourself:
  # read: [projects/*, decisions/*, blockers/*, status/*]    # X/* is X and all below it
  # write: [projects/*, status/*, blockers/*]
  # What wakes it while it works: critical, important.
  notify: [critical]
"""

_WORKS = "Does what the plan gives it."
_WHO = (
    ("cto", "cto", "management", "Sets the goal. Sees and overrides everything."),
    ("lead", "project-lead", "management", "Plans, gives out the work, reports."),
    ("eng-backend", "engineer", "backend", _WORKS),
    ("eng-frontend", "engineer", "frontend", _WORKS),
    ("qa", "specialist", "quality", "Tests what the others say they have done."),
)
AGENTS = {
    id: _AGENT.format(id=id, role=role, department=department, about=about)
    for id, role, department, about in _WHO
}
