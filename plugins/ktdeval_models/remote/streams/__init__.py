"""Streamed answers: events in a body, and how each API's events are assembled into a whole
answer.
"""
