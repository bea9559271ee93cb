"""Framed messages between clients and servers: codec, handshake, sockets, TLS."""
