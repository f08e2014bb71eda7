"""Names that a plugin author needs, loaded on first use; `api.pyi` lists them.

A test freezes the list: adding a name is a deliberate decision, and removing one breaks somebody's
plugin. `RawMarket` and `assemble` come from the kit `ktdeval_raw_markets`: this module shows authors
the whole, so it alone of ktdeval may name a kit. More of the library is public in its packages:
`ktdeval.market`, `.masking`, `.trading`, `.harness`, `.attribution`, `.stats`, `.runner`, `.cards`.
"""

from ktdeval.values.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, __file__)
