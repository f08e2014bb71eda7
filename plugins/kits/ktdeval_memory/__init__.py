"""Kit of agents with a layered memory: memories and their recall, embeddings of texts, what a
prompt shows of both, and the agent itself.

A library of plugins, not a plugin: it registers nothing and imports no other plugin.
"""
