"""Publication of a chain: commits, time stamps, and their evidence."""
