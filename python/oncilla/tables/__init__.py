"""What a scan of a table needs: bounds, predicates, streams, selections. On core."""
