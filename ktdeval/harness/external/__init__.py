"""Steps of external agents: programs, frameworks, clients."""
