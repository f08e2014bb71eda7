"""Access to the services: tools in the process, HTTP, and the Model Context Protocol."""
