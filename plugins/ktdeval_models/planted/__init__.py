"""A small language model with a known memory: the text that it reads, its training, its file, and the
model `planted/memory`.
"""
