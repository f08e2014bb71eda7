"""Models reached over a network, each through its provider's official SDK. Only the adapters know
wire formats.
"""
