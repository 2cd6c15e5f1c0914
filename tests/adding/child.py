"""The command line in a process of its own, with blocks of as many traces as the first argument says. It waits for a
word so that it can be killed at any moment after it.
"""

import sys

sys.stdout.write("ready\n")
sys.stdout.flush()
sys.stdin.readline()

import generate.annotating.annotation_run  # noqa: E402 (the word comes before the imports take their time)
from thinkback.app import main  # noqa: E402

generate.annotating.annotation_run.MAX_BLOCK_TRACES = int(sys.argv.pop(1))
main()
