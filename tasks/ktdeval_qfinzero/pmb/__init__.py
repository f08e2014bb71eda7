"""PMB, the paper money broker: an event-sourced account over the same clock."""
