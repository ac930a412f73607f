"""Policy gradients: actor-critics on-policy and from replay."""
