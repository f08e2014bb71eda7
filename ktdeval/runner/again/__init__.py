"""Recorded decisions repeated: steps asked again, or decisions executed at other capitals."""
