"""Live page of a forward test: its data as a single typed value, and the page that shows it."""
