"""HTTP requests to own servers, and addresses without secrets."""
