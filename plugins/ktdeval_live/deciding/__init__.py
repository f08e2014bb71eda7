"""Steps of a forward test: how it starts, and how entrants are asked."""
