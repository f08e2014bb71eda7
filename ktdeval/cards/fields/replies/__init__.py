"""Fields about model calls and their replies: counts, cost, roles, models that answered."""
