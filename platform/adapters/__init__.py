"""Adapters: trainings told to the tools that people already run, each imported when the environment asks for it."""
