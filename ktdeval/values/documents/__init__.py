"""Documents in files: strict JSON and YAML, typed values in them, versions of their formats."""
