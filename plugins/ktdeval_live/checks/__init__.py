"""Verification of a forward test, one module for each kind of check."""
