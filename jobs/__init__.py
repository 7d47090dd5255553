"""Jobs: the stages on a Ray cluster, one file per verb."""
