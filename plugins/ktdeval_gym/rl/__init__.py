"""Training of policies: the command `ktdeval train rl`, based on stable-baselines3."""
