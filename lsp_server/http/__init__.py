"""The endpoint for plugins that use a local server: it uses the same worker as the editors. No LSP types."""
