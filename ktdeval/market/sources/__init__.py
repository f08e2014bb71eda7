"""Sources: a vendor's tables and documents in one form."""
