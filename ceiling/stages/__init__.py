"""One file per verb: plan the units, do one unit, commit it; called by the command line and by jobs."""
