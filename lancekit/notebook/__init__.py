"""What a person sees: models of what to show, rendered as text and HTML.  Reads public objects only."""
