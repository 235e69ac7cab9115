"""The pieces of other open files that the model sees: never secret ones, and only inside the workspace folders."""
