"""What can be run: recipe manifests, their parameters and rules, and the index compiled from them."""
