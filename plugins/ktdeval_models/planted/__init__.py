"""A small language model with known memory: its input text, training and files, and the model
`planted/memory`, which trades on it.
"""
