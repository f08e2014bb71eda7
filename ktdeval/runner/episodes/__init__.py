"""Episodes: how an episode is run step by step, and the books that it keeps."""
