"""Tables and figures from papers, made from the user's own cards and runs."""
