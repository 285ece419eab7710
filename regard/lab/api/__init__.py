"""The endpoints, one file a view, each with a list `routes`; regard.lab.app finds them by their files."""
