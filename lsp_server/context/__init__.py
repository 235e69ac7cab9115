"""The pieces of open and imported files that the model sees: never secret ones, only inside the workspace folders."""
