"""The command line: `ktdeval.cli.main` is its top; every other module holds commands that are imported only when called."""
