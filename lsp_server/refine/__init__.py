"""A partner, a larger model on a server, improves the model's drafts: a visible suggestion, or a recent fill."""
