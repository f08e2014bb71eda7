"""Names that an author of a plugin needs, loaded when used; `api.pyi` lists them.

The list is frozen by a test: adding a name is a decision, removing one breaks somebody's plugin.
More of the library is public in its packages: `ktdeval.market`, `.masking`, `.trading`, `.harness`,
`.attribution`, `.stats`, `.runner`, `.cards`.
"""

from ktdeval.values.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, __file__)
