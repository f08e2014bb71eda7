"""Tables and figures of papers, from one's own cards and runs."""
