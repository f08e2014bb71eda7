"""Days of a forward test: its clock, its sessions, and the sources of its data."""
