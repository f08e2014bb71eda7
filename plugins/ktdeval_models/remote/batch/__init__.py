"""The providers' batch interfaces. They implement `ktdeval.calls.Batches` with the client of an
adapter.
"""
