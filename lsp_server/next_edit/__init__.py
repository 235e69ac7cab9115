"""Next edit: finds what no longer fits after a change, one place after the other."""
