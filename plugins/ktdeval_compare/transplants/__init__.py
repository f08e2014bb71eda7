"""Transplants: decisions executed again at other capitals and costs."""
