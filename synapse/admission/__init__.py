"""Admission: files that others put into the workspace, as far as they are believed.

`drops` has the files of agents, `operator_files` declarations and settings. Which files there are,
the log finds; `Store` alone calls what is here, `conformance` its check of a sealed body.
"""
