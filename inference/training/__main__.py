"""`python -m inference.training`: see run.py."""

from inference.training.run import main

raise SystemExit(main())
