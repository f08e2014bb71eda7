"""Transplants: decisions executed again with different capital and costs."""
