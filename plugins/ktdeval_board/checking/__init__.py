"""Board checks. Submissions are treated as data: nothing in them is trusted or executed."""
