"""Histories: users' last events, kept by the warehouse and looked up by a service."""
