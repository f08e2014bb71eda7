"""The commands, in modules that are imported when a command is called."""
