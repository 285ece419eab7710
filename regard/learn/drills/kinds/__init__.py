"""The kinds of drills: each function draws the numbers of one drill and returns its task."""
