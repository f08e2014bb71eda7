"""Export a board's rows to every_eval_ever and the Hub, and import every_eval_ever records."""
