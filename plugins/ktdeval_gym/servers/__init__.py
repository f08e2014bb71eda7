"""Tasks as OpenEnv environments."""
