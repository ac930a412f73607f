"""Records a run in a service such as Weights & Biases or MLflow too, from a process of its own."""
