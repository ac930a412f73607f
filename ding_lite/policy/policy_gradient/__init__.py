"""Policies that follow the gradient of log pi(a | s): REINFORCE and actor-critics, on-policy or with replay."""
