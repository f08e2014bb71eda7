"""Plans of runs: options, data, agents and models, checked before a run starts."""
