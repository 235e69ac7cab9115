"""Explicit user actions: their holes, where each is offered, its title and its execution. No LSP types."""
