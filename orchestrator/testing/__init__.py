"""For tests of engines and of programs with agents: a model server on loopback, and the contract of an engine."""
