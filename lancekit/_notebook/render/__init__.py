"""Models of what a person sees, and what they become: text, HTML, widgets."""
