"""What users did last: histories that the warehouse keeps, and how a service looks one up."""
