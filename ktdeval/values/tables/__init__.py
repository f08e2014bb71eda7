"""Reader for third-party tables: bars, files next to them, drop folders, ingested data.

`kinds` detects the format of a file, `text_files` its encoding, `workbook` extracts the text of a
spreadsheet; `rows` and `blocks` return its cells with line numbers, by the columns that a table
must and may have.
"""
