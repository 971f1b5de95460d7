"""The parts of the stage `verify`: what is read, repeated and compared, so that the gates have something to judge."""
