"""Label invariance: the share of a result that is due to labels."""
