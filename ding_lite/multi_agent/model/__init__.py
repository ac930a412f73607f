"""Networks of several agents."""
