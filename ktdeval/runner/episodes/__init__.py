"""Episodes: how one is played step by step, and the books that it keeps."""
