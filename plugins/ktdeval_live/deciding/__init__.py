"""Steps of a forward test: its beginning, and how entrants are asked."""
