"""What is looked at on a node before it joins the others."""
