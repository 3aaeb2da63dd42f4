"""For users' own tests: `contract.EngineContract`, the tests that any engine must pass, and
`model_server.ModelServer`, a scripted provider on loopback. Needs no test framework.
"""
