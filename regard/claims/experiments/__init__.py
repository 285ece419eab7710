"""One file a claim: what is said, what is done, the rule of the verdict, the plot."""
