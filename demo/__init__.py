"""The main job (`make demo`): TPC-H tables in the memory of several nodes, queried from Python."""
