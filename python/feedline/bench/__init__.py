"""What `feedline bench` runs in child processes: loaders under test, and what they load.

Started by the command as ``python -m feedline.bench.driver``; there is nothing here to call.
"""
