"""Dated exchange rules: boards, fees, calendars and kinds of securities."""
