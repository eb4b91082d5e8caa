"""`python -m clmpt`, for where the command `clmpt` is not on the path."""

import sys

from clmpt.cli.main import main

sys.exit(main())
