"""What a run needs: looked at on this machine, and tried by a small job."""
