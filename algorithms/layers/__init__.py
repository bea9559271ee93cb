"""What networks are made of: lookups, poolings, activations, dense layers."""
