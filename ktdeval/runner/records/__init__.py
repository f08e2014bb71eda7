"""Records of a run: its folder, manifest, journal and ledger, here or at a URL."""
