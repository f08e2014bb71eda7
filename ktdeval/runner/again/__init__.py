"""Recorded decisions once more: asked again, or executed at other capitals."""
