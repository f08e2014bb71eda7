"""Streamed answers: events of a body, and their assembly to a whole answer of each API."""
