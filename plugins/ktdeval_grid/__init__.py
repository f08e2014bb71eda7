"""Grids: models × agents × tasks × windows × seeds, as one command that resumes and amends."""

from __future__ import annotations
