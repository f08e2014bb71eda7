"""Check of a board. Submissions are data: nothing in them is trusted or executed."""
