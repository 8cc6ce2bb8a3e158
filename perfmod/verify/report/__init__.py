"""What is made of an `Evidence`: JSON that reads back, lines for a terminal, Markdown and a page."""
