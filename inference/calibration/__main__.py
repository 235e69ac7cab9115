"""`python -m inference.calibration`: see run.py."""

from inference.calibration.run import main

raise SystemExit(main())
