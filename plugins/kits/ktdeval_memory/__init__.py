"""Kit for agents with a layered memory: memories and their recall, text embeddings, what a prompt
shows of both, and the agent itself.

A library for plugins, not a plugin: it registers nothing and imports no other plugin.
"""
