"""Streamed answers: events of a body, and the whole answer of each API that they add up to."""
