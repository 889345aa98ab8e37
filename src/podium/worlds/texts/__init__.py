"""Texts of exercises that podium/tiny2 has read: tasks, demonstrations that are right at a stated share, and replies.

An `Exercise` is a value: its prompt, a function that writes a demonstration, and a function that says what the turns
so far lead to. Worlds whose tasks are such exercises take their texts from here, so that the model knows them.
`subjects.py` lists them all with their levels and shares.
"""
