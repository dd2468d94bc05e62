"""Every kind of type that a program may define, in every place where it may, put to every use."""
