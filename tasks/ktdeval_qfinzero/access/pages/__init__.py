"""Pages of the server: the state of the data and of the services, and a playground of chats."""
