"""A deprecated function warns its caller with versions and a way out, and still works."""

from __future__ import annotations

import pytest

from ktdeval.values.deprecation import KtdevalDeprecationWarning, deprecated


@deprecated(since="1.2", until="2.0", instead="use `mean`")
def average(*values: float) -> float:
    """Return the mean."""
    return sum(values) / len(values)


def test_a_deprecated_function_names_itself_both_versions_and_what_to_use() -> None:
    message = "average is deprecated since 1.2 and will be removed in 2.0; use `mean`"
    with pytest.warns(KtdevalDeprecationWarning, match=f"^{message}$") as caught:
        assert average(1.0, 3.0) == 2.0
    assert caught[0].filename == __file__
    assert average.__doc__ == "Return the mean."
