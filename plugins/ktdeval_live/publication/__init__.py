"""Publication of a chain: commits, time stamps, and the evidence they provide."""
