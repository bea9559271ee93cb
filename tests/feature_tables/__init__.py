"""Tests of features by key."""
