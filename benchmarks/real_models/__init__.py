"""Real language models on cards: their weights, runs, records and page (docs/real-models.md)."""
