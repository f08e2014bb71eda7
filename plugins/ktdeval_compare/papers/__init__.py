"""Tables and figures of papers, made from the user's own cards and runs."""
