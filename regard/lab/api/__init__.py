"""The endpoints, one file a view, each with a list `routes`; regard.lab.server.app finds them by their files."""
