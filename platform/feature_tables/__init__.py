"""Feature tables: features by key, kept by the warehouse, joined at a point in time and looked up by the service."""
