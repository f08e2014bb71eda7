"""Reader of tables that others wrote: bars, files next to them, drop folders, ingested data.

`kinds` finds the kind of a file, `text_files` its encoding, `workbook` the text of a spreadsheet,
`rows` and `blocks` give its cells with their lines, by the columns that a table must and may have.
"""
