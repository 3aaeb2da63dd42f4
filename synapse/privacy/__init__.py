"""Secrets and personal data in texts: they are found here, by patterns, and masked or refused.

Pure: texts, drafts and records in, the same without them out. The gate of entries, the log and the
files of runs call this; nothing here reads or writes.
"""
