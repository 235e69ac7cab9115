"""`infill-ls calibrate`: how sure a checkpoint is of a hole by its length alone, measured on code."""
