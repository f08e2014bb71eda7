"""Runs that need more than one process and one folder: runs at a URL, in parts by several workers,
or with a watcher; also code that they share with local runs.
"""
