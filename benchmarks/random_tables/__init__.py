"""Tables that are drawn at random, so that nobody tunes for them: what they are, their rows, and the files' writers."""
