"""Days of a forward test: its clock, its sessions, and where their data come from."""
