"""Check of a board: submissions are data, and nothing of them is trusted or executed."""
