"""The command line: one file for each command group, which imports what it runs inside its commands."""
