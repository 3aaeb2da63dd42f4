"""Puts a client's plugin into the client's configuration, and takes it out again.

A client's module (`claude_code`, `codex`, …) says what changes; this folder merges it into files
that others write too, records what was done, and undoes it to the byte. The shell's verbs
`install` and `uninstall` call it.
"""
