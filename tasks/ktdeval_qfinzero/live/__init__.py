"""Questions answered by tool calls, each in its own workspace: a turn of a chat, or a trading
session.
"""
