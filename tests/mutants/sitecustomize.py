"""Weaves mutants into the processes that tests start: Python imports this module at its start."""

from mutant_hook import install_from_environment

install_from_environment()
