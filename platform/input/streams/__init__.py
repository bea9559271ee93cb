"""Streams: inputs that grow; what has arrived is cut into immutable splits."""
