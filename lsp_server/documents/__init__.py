"""Documents: open texts, their versions and positions, notebooks, URIs, and files that are read. No LSP types."""
