"""Sources: a vendor's tables and documents in a common form."""
