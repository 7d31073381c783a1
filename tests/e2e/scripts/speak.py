"""Writes to both streams, a line that ends and one that does not, then goes on as report.py."""
import os
import sys

import report

RANK = os.environ['RANK']
sys.stdout.write(f'out of {RANK}\nout, no end')
sys.stdout.flush()
sys.stderr.write(f'err of {RANK}\n')
sys.stderr.flush()
report.main()
