"""ESP, the event stream pipeline: news and calendars as of the clock."""
