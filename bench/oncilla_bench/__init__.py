"""The benchmark of Oncilla beside its peers and the physical limits; bench/README.md says how to read it."""
