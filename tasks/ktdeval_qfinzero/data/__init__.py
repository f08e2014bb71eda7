"""Market data of the services: rows, stores, generation, storage and ingestion."""
