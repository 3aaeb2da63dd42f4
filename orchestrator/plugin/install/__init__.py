"""The installation of a client's plugin into the client's configuration, and its removal.

A client's module in `clients/` says what changes; `files/` merges it into files that others write
too; `record` keeps what was done, so that it can be undone to the byte. The shell's verbs `install`
and `uninstall` call it.
"""
