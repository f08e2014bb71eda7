"""Models reached over a network, each through its provider's official SDK. Wire formats stay inside
the adapters.
"""
