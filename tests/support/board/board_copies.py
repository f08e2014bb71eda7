"""Large boards from small ones: each entrant again under other names and keys, in the time of writing
files.

A copy's documents agree with each other as those of the first do; its figures are the same, but for
their ties.
"""

from __future__ import annotations
