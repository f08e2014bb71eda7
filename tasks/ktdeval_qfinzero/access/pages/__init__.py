"""Server pages: health of data and services, and a chat playground."""
