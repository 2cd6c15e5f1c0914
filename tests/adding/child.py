"""The command line in a process of its own, which waits for a word so that it can be killed at any moment after it."""

import sys

sys.stdout.write("ready\n")
sys.stdout.flush()
sys.stdin.readline()

from thinkback.app import main  # noqa: E402 (the word comes before the imports take their time)

main()
