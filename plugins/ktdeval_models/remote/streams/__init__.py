"""Streamed answers: events in a response body, and how each API's events are assembled into a
complete answer.
"""
