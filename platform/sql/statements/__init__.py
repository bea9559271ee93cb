"""Our statements, one file each."""
