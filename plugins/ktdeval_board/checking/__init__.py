"""Check of a board: what is submitted is held against the rules, and nothing of it is believed or executed."""
