"""Kit for the pages of boards, viewers, reports and forward tests: tokens, styles, scripts,
templates and words.

A library for plugins, not a plugin: it registers nothing and imports no other plugin.
"""
