"""What helps to type a command: examples, descriptions, completion, words that have moved."""
