"""Rules of exchanges by day: boards, fees, calendars and kinds of securities."""
