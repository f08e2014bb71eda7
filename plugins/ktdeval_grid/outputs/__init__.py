"""What a grid makes at its end: tables, reports and a static bundle."""
