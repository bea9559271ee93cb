"""The rows of a version as files that are mapped: of the service, and of exports."""
