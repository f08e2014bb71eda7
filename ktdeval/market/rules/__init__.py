"""Exchange rules by day: boards, fees, calendars and kinds of securities."""
