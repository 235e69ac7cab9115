"""A partner, a larger model on a server, improves what the user points at: a visible suggestion, or a selection."""
