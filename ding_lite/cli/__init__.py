"""The command line: one module for each command, with its help, its options and what it does.

`main.py` finds the command. A command's module has

* a docstring, whose first line is its help,
* `USAGE`, what follows the command's name in its usage,
* `EXAMPLES`, command lines for the end of its help,
* `add_arguments(parser)`, which declares its options,
* `run(args)`, which carries it out. `args.words` are the words `key=value`; a command that takes none leaves `USAGE`
  without them.

torch and other large packages are imported by `run` alone, so that help and mistakes in options are shown immediately.
"""
