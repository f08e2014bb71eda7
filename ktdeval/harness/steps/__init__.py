"""One step of an agent: its model calls, tools, submissions, leak guard and record."""
