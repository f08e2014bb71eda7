"""Runs beyond one process and one folder: at a URL, in parts by several workers, or with a watcher;
and shared code for local runs.
"""
