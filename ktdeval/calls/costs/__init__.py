"""What a call costs: prices, sizes of prompts, prompt caches and context windows."""
