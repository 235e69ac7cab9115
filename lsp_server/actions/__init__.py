"""Explicit user actions: fill marked holes, write a body, rework, repair.

Defines the holes of each action, where it is offered, its title, and its execution. No LSP types.
"""
