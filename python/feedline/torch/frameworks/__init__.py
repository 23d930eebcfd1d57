"""What frameworks need that make loaders anew instead of using the one they are given.

- `accelerate`: Hugging Face's Accelerate, and with it transformers' Trainer.
- `ray`: Ray Train.
- `rebuilding`: the settings that a loader made in place of ours must have.
"""
