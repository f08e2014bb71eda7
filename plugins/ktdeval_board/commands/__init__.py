"""The commands of `ktdeval leaderboard`, one module each."""
