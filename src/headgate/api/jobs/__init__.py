"""Runs program files, captures plans and controls running jobs; `deploy` and `runtime` execute the jobs."""
