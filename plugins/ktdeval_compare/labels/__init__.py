"""Label invariance: share of a result that is due to labels."""
