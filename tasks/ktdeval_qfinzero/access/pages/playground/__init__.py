"""Chats with models that call the tools, each a run on disk."""
