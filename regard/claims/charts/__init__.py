"""Charts of claim results: their data, their labels in two languages, and how they are drawn."""
