"""LSP types outside of handlers: dispatch, replies, conversions, and the connections to editor and worker."""
