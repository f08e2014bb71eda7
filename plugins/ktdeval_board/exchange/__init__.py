"""A board's rows for every_eval_ever and the Hub, and records of every_eval_ever for a board."""
