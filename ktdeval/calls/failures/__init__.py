"""Failures of calls: errors of HTTP and of providers as typed errors, retries, outages, cut replies."""
