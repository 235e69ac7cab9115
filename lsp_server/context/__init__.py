"""Retrieves snippets of open and imported files for the model: never secret ones, only inside the workspace folders."""
