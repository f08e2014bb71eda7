"""Self-test of a board. Its check is given one forgery from each family, and must refuse each
forgery under the right rule.
"""
