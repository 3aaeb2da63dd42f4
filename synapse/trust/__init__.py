"""Trust: whom and what the memory believes, and what a workspace may do beyond itself.

`drops` and `operator_files` admit the files that agents and the operator put beside the journal,
`bearer` has the tokens of callers, `keyring` and `workspace_keys` the keys that seal and sign.
`decisions` has what a person trusted a workspace with, `persons` which acts are refused to agents,
`lineage` how far a run is believed that was shown what nobody vouched for. Nothing here opens a
workspace: the log, the index and the settings are handed in.
"""
