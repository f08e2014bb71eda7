"""Server pages: the health of data and services, and a chat playground."""
