"""UPQ, the unified price query: bars, options, rates and corporate actions as of the clock."""
