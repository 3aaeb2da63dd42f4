"""Verbs that look after a workspace: the daemon, the nightly maintenance, proposals, notes."""
