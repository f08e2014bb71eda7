"""Label invariance: how much of a result is the labels'."""
