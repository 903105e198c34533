"""Plan → text. Nothing is printed into a script but what an encoder of this room made."""
