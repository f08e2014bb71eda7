"""Forms of submissions: schemas, readers, and feedback for what violates them."""
