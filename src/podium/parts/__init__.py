"""Parts: the formulas that methods are made of, one folder per stage of an iteration.

`select` chooses tasks, `annotate` and `reward` write columns about the rollouts, `keep` decides what is trained,
`advantage` and `shape` turn rewards into advantages and token weights, `objective` holds the losses, `updates` how a
batch is divided into optimiser steps, and `metric` what is reported besides.
"""
