"""The endpoint for plugins that speak to a local server: it asks the same worker as the editors do. No LSP types."""
