"""`python -m acuse` is `acuse`."""

import sys

from acuse.command.main import main

sys.exit(main())
