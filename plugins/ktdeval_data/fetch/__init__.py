"""Markets fetched from vendors. A table that describes a vendor's calls gives a plan of requests,
the responses are kept on disk, and the result is one RawMarket.
"""
