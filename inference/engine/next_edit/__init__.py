"""After a change: which other places no longer fit, and what they would become."""
