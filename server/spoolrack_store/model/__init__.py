"""The words of the store: what a name says, which moves are legal, what can go wrong. Pure."""
