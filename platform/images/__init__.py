"""Images: the rows of a version as memory-mapped files, for the service and for exports."""
