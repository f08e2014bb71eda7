"""Training of policies: the command `ktdeval rl train`, and stable-baselines3 behind it."""
