"""Values as Arrow columns, where nothing is lost. Tables and files are in `state`."""
