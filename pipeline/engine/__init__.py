"""The engine of the extract stage; imported in the stage environment only."""
