"""Names in a text: assets, companies, persons, codes, and what else identifies them."""
