"""The rules of SQL functions, a module for each family; no rule evaluates anything but its own arguments."""
