"""`python -m ding_lite`: the command line, for launchers that start a module.

Python puts the current directory first on `sys.path`, where a file `numpy.py` would take the place of the package.
It is removed here, unless the package itself comes from it; a config that is read adds it at the end.
"""

import os
import sys

if not sys.flags.safe_path and sys.path[0] == os.getcwd():
    del sys.path[0]
    if os.path.dirname(os.path.dirname(os.path.abspath(__file__))) == os.getcwd():
        sys.path.append(os.getcwd())

from ding_lite.cli.main import main

if __name__ == "__main__":
    main()
