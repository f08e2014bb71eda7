"""Kinds of securities, other than A-shares, on the A-share exchanges, determined by code."""

from __future__ import annotations

import re

_KINDS = (
    ("index", r"000[0-9]{3}\.SH|399[0-9]{3}\.SZ|899[0-9]{3}\.BJ"),
    ("B share", r"900[0-9]{3}\.SH|200[0-9]{3}\.SZ"),
    ("preferred share", r"360[0-9]{3}\.SH|140[0-9]{3}\.SZ"),
    ("warrant", r"580[0-9]{3}\.SH|03[0-9]{4}\.SZ"),
    ("fund", r"5[0-9]{5}(?:\.SH)?|1[568][0-9]{4}\.SZ"),
    ("bond", r"(?:01|02|1[0-9]|20)[0-9]{4}\.SH|1[0-4][0-9]{4}\.SZ"),
    # Purely numeric codes that denote the same kind on both exchanges
    ("index", r"399[0-9]{3}"),
    ("B share", r"900[0-9]{3}|200[0-9]{3}"),
    ("fund", r"1[568][0-9]{4}"),
    ("bond", r"0[12][0-9]{4}|1[0-3][0-9]{4}"),
    ("Hong Kong share", r"[0-9]{1,5}\.HK|[0-9]{1,5} HK(?: Equity)?|0[0-9]{4}"),
)
"""Kinds of securities on the A-share exchanges, keyed by the first digits of a code."""


def kind_of_security(code: str) -> str:
    """Return the kind of security for a code that is on no A-share board; empty if its digits don't
    reveal the kind.
    """
    for kind, pattern in _KINDS:
        if re.fullmatch(pattern, code):
            return kind
    return ""
