"""Shadow mode: silently repeats a sample of the model's requests to the other model, to compare the two."""
