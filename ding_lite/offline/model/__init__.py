"""Networks of policies that learn from a data set."""
