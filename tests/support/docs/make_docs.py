"""Generated parts of the documentation: pages under docs/reference and docs/packages, and the lists
between markers in other pages. `make docs` writes them; a test holds them equal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from ktdeval.registry import Plugins, load_plugins
from support.docs.docs_board import systems_table
from support.docs.docs_cards import deciders_table
from support.docs.docs_dependencies import dependencies_table
from support.docs.docs_masks import gives_away_table
from support.docs.docs_nav import llms_text
from support.docs.docs_packages import DOCS, FOLDER, package_pages
from support.docs.docs_project import (
    bounds_table,
    formats_table,
    layers_text,
    rings_table,
    tests_table,
)
from support.docs.docs_reference import reference_pages
from support.docs.docs_rooms import families_table, rooms_table
from support.docs.docs_tables import (
    columns_table,
    glossary_panel,
    providers_table,
    token_rates_table,
    with_table,
)
from support.paths import REPOSITORY

LLMS = REPOSITORY / "llms.txt"
#: Lists between markers, by page and name
TABLES: dict[str, dict[str, Callable[[], str]]] = {
    "leaderboards/README.md": {"field": systems_table},
    "docs/cards.md": {
        "deciders": deciders_table,
    },
    "docs/masks.md": {"gives away": gives_away_table},
    "docs/data.md": {"columns": columns_table},
    "docs/models.md": {"providers": providers_table},
    "docs/plan.md": {"token rates": token_rates_table},
    "docs/architecture.md": {
        "families": families_table,
        "rooms": rooms_table,
        "rings": rings_table,
        "layers": layers_text,
    },
    "docs/inside.md": {"tests": tests_table},
    "docs/stability.md": {
        "formats": formats_table,
        "dependencies": dependencies_table,
        "bounds": bounds_table,
    },
    "docs/glossary.md": {"panel": glossary_panel},
    "docs/leaderboard-site.md": {"field": systems_table},
}


def pages_with_tables() -> dict[Path, str]:
    """Return the pages that hold generated lists, with these lists as they are today."""
    pages = {}
    for name, tables in TABLES.items():
        path = REPOSITORY / name
        text = path.read_text(encoding="utf-8")
        for table_name, make in tables.items():
            text = with_table(text, table_name, make())

        pages[path] = text

    return pages


def generated_pages(plugins: Plugins) -> dict[Path, str]:
    """Return all pages with generated parts by their path, but for the copies of others."""
    reference = reference_pages(plugins)
    return {
        **{DOCS / "reference" / name: text for name, text in reference.items()},
        **pages_with_tables(),
    }


def write(pages: dict[Path, str]) -> None:
    """Write the pages that have changed, and name them."""
    for path, text in pages.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(REPOSITORY))


def main() -> None:
    """Write everything that is generated. Copies come last: they hold lists of the others."""
    broken: list[str] = []
    plugins = load_plugins(warn=broken.append)

    if broken:
        sys.exit("\n".join(["a plugin fails to load, so the pages would lack it:", *broken]))

    write(generated_pages(plugins))
    copies = package_pages()
    write(copies)
    write({LLMS: llms_text()})

    for page in set(FOLDER.glob("*.md")) - set(copies):
        page.unlink()
        print(f"removed {page.relative_to(REPOSITORY)}")


if __name__ == "__main__":
    main()
