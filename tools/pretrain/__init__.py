"""Makes podium/tiny: its tokenizer, its training text, the model, and the table of what it can do.

The model is half-taught on purpose. Its text comes from the embedded worlds: questions with solutions in several
styles, and whole conversations, of which some go wrong at one step and follow from there to a wrong answer. How often
is set per world and level in `dials`, so that reinforcement learning has something to do, and entropy something to
lose. Nothing of the test split is in the text.
"""
