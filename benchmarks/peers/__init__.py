"""Other tools on the same rows, one core, whole processes; those that are not installed are left out, and it is said."""
