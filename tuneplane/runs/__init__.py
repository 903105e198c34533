"""Runs: their folders, what they left, and how they stand."""
