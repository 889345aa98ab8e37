"""Podium's methods inside other trainers: their loop, sampler and optimiser, a method's credit and objective.

Nothing here is imported by `import podium`: name the module of the trainer, such as `podium.integrations.trl`.
"""
