"""How models learn: steps, loops that can be stopped, and what they leave behind."""
