"""Fields about who decided and what they could know: deciders, cutoffs, certificate, labels."""
