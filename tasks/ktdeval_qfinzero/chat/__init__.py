"""Chats: what a user writes is one question of a scoring task, so that each chat is a run."""
