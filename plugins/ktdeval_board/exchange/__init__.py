"""Export a board's rows to every_eval_ever and the Hub, and import records of every_eval_ever."""
