"""Kit for plugin authors: checks of the plugin contract, small markets, and what tests of a plugin
share. `__init__.pyi` lists it; each name is loaded on first use.

from ktdeval.testing import check_plugin

def test_plugin_keeps_the_contract():
    check_plugin("my_plugin")
"""

from ktdeval.values.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, __file__)
