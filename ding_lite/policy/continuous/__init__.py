"""Policies for continuous actions that learn an actor and action values Q(s, a)."""
