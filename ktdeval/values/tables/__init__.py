"""Reader for third-party tables: bars, accompanying files, drop folders, ingested data.

`kinds` detects the format of a file, `text_files` its encoding, and `workbook` extracts the text of
a spreadsheet. `rows` and `blocks` return the cells with line numbers, by the columns that a table
must and may have.
"""
