"""Questions that calls answer, each in a workspace of its own: a turn of a chat, or a session to trade."""
