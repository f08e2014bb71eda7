"""Certificates: attacks on what a mask shows, what the attackers recovered, and the bounds that
follow.
"""
