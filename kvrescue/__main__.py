import sys

from kvrescue.cli import main

sys.exit(main())
