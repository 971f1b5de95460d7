"""The SSH link: from a host's name to the bytes of one command there. Workstation only."""
