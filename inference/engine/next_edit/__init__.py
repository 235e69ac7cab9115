"""After a change: finds other places that no longer fit, and their replacements."""
