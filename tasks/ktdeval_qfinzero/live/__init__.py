"""Questions answered by tool calls, each in its own workspace: a chat turn, or a trading
session.
"""
