"""Networks of policies that learn a model of the environment."""
