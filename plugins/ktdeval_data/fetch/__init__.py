"""Markets fetched from vendors: a table of a vendor's calls gives a plan of requests, answers are
kept on disk, and the result is one RawMarket.
"""
