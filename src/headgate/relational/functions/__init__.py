"""The rules of functions, a file for each family; no rule evaluates anything but its own arguments."""
