"""Image files: finding the one a run needs and telling it by its digest."""
