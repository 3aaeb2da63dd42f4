"""`view_capsule` under its public name: a start with the view and the tools. See `prompts`."""

from orchestrator.prompts.opening import view_capsule as view_capsule
