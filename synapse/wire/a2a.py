"""The name of our extension of A2A, under which messages say a skill and results their usage."""

from __future__ import annotations

EXTENSION = "urn:synapse:a2a:1"
