"""Trust: whom and what the memory believes, and what a workspace may do beyond itself.

`decisions` has what a person trusted a workspace with, `persons` which acts are refused to agents,
`lineage` how far a run is believed that was shown what nobody vouched for, `spread` how often text
may copy itself. Nothing here opens a workspace: the index and the settings are handed in.
"""
