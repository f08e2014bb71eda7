"""Transplants: decisions executed again with other capitals and costs."""
