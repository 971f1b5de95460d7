"""Gates: each looks at what a stage made and says whether it can be trusted, else which fault it found.

A gate is a pure function over tensors, token ids or texts: it starts no engine and reads no run. Most faults they know
raise nothing anywhere; they are only seen in the numbers.
"""
