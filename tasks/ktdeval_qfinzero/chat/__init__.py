"""Chats: each message of the user is one question of a scoring task, so each chat is a run."""
