"""What is refused before anything starts, judged from the program itself. What only a running job can tell
stands in `runtime`.
"""
