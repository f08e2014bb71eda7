"""Run somewhere else than in one process and one folder: at a URL, in parts of several workers,
or under the eyes of a watcher; and what such runs share with those of this machine.
"""
