"""All that knows LSP types and is no handler: dispatch, replies, conversions, and the lines to editor and worker."""
