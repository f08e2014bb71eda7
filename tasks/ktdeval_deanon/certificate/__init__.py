"""Certificates: attacks on what a mask shows, what they recovered, and the bounds that follow."""
