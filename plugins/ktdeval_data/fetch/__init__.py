"""Markets fetched from vendors: a plan of requests from a table of its calls, answers on disk, one
RawMarket.
"""
