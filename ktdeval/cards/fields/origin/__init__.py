"""Fields about where a card comes from: plan, task, software, facts, anchors."""
