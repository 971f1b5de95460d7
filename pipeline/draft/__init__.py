"""The draft model: built for a target, saved, trained, measured and served."""
