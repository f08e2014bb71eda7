"""Kit for the pages of boards, viewers, reports and forward tests: design tokens, styles, scripts,
templates and words.

This is a library for plugins, not a plugin: it registers nothing and imports no other plugin.
"""
