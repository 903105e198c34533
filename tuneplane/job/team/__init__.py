"""The nodes of a job among themselves: how they meet, hear each other, and agree."""
