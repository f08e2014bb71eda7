"""Certificates: attacks on what a mask shows, what they recovered, and what that bounds."""
