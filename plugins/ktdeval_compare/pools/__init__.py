"""One estimate over windows and markets."""
