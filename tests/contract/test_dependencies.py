"""Every dependency is imported by product code; docs/stability.md says by which packages."""

from __future__ import annotations

import pytest

from ktdeval.testing import not_empty
from support.docs.docs_dependencies import rows


@pytest.mark.slow
def test_every_dependency_is_imported_by_product_code() -> None:
    unused = [name for name, _, users in not_empty(rows()) if not users]
    assert not unused, f"{unused}: installed for nothing"
