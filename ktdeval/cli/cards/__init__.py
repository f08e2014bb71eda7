"""Commands on result cards, and cards and ledgers as data frames."""
