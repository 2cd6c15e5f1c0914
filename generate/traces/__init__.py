"""Reading an existing log for prompts and models: blocks of examples with their traces, and the origins of
the traces.
"""
