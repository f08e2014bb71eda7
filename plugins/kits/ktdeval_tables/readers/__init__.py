"""Readers of single files: bars, accompanying files, drop folders, ingested data.

`file_kinds` detects the format of a file, and `text_encoding` its encoding. `rows` and `blocks`
return the cells with line numbers, by the columns that a table must and may have.
"""
