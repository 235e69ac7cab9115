"""What a user can ask for besides what appears while typing: fill marked holes, write a body, rework, repair.

Which holes each of these means, where it is offered, what it is called, and how it is carried out. No LSP types.
"""
