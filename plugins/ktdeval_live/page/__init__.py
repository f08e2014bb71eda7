"""Live page of a forward test: its data as one typed value, and the page that shows them."""
