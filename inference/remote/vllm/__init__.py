"""Asks a vLLM that serves DiffusionGemma with pinned canvases. What was seen of vLLM 0.32, by asking and in its source:

- A canvas is `max_tokens` = `diffusion_canvas_length` rows behind the prompt, at most as wide as the served one. All
  of it comes at once, also with `stream`: no drafts. Closing the connection aborts it.
- The output is the likeliest token of every row, pinned rows too, where it may differ from the pin (canvas.py).
- The bound on entropy, the stop rule and stability count all rows; pinned ones feed nothing back to self-conditioning.
  So no canvas is wider than what it has to show, and fills differ from our own engine's.
- Temperatures follow the server's `max_denoising_steps`, and a higher `diffusion_max_steps` is clamped without a word.
- The first step's noise is ours; later noise is random tokens, which a checkpoint that knows a mask token alone has
  never seen. Such a checkpoint is refused.
- Read-only requests give log-probabilities at temperature 1 over all tokens: the 20 likeliest of each row, or up to 128
  named ones (canvas.py).
- What it refuses, and what ends its engine, stands in wire.py. What it serves, it says when refusing (infilling.py).
"""
