"""A small language model with a known memory: its input text, its training, its file, and the model
`planted/memory`.
"""
