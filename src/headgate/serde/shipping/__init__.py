"""How a program's functions and classes get to its workers. Nothing of it is ever stored."""
