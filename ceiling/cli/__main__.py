"""``python -m ceiling.cli``: the same as the console script."""

import sys

from ceiling.cli import main

sys.exit(main())
