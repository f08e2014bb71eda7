"""Kit for agents with a layered memory: memories and how they are recalled, text embeddings, what a
prompt shows of memories, and the agent itself.

This is a library for plugins, not a plugin: it registers nothing and imports no other plugin.
"""
