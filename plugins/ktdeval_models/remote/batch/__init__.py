"""Batch interfaces of the providers: `ktdeval.calls.Batches`, using an adapter's own client."""
