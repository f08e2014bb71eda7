"""Parts of a request: forms that a server accepts, schemas, headers, cache marks."""
