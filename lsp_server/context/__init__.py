"""The parts of other files that the model sees: never secret ones, and only inside the workspace folders."""
