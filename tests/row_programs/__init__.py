"""Tests of images of rows."""
