"""Records of calls: the log of a run, the cache of replies, and counts of both."""
