"""Also records a run in a service such as Weights & Biases or MLflow, from a separate process."""
