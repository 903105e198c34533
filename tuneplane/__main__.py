"""`python -m tuneplane` is `tp`."""

from tuneplane.cli.main import main

main()
