"""Shadow mode: silently repeats a sample of the requests to a second model, and compares both with what is saved."""
