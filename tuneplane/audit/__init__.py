"""For an auditor who does not trust the run folder: compile again from what is published, and name every difference."""
