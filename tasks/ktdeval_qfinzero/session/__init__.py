"""Sessions of the broker as one question of a scoring task: trade some stocks for some days."""
