"""Commands of `ktdeval leaderboard`, one module each."""
