"""The subcommands of `infill-ls`, one file each: `add_arguments(parser)` and `run(args) -> exit status`."""
