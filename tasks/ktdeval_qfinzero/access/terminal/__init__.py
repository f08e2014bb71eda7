"""Broker terminal: a page at `/terminal/`, branches of a workspace, and previews of orders."""
