"""Clusters described once by their admin: scheduler, nodes, runtime, folders, and what a user may ask for."""
