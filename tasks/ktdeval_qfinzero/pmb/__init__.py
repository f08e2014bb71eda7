"""PMB, the paper money broker: event-sourced accounts on the shared clock."""
