"""The desk of a program: the model bridge and the tool server, and what they speak."""
