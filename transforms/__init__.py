"""What is rewritten: the rules and the facts about code that they ask."""
