"""What stands on a canvas: a request as tokens and rows, what each row may become, and rows as text again."""
