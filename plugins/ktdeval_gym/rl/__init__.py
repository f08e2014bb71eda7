"""Training of policies: the command `ktdeval train rl`, and stable-baselines3 behind it."""
