"""ktdeval: can a language-model agent invest, or does it remember the market and ride factors?"""

__version__ = "0.1.0"
