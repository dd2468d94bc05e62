"""The rules of functions of arrays, maps and structs, a file for each subject."""
