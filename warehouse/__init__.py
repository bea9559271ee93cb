"""Models and exports in the warehouse."""
