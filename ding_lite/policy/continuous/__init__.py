"""Actor-critics with action values Q(s, a), for continuous actions."""
