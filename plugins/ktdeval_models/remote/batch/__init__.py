"""Batch interfaces of the providers: `ktdeval.calls.Batches` over an adapter's own client."""
