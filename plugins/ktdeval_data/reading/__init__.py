"""Files of tables as vendors and programs write them: pure functions, one idea a module."""
