"""For tests of engines and of programs with agents: `contract.EngineContract`, what any engine must
pass, and `model_server.ModelServer`, a scripted provider on loopback. Needs no test framework.
"""
