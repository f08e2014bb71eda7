"""The commands, in modules that are imported when called."""
