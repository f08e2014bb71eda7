"""Fields about returns: metrics, attribution, reference policies, correlation with later returns."""
