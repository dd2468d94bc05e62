"""What is said and done about snapshots while no job runs: checks of upgrades, and rewriting.

Beside the command `headgate` these are for programs: `check_upgrade`, `describe_snapshot`, `reslice` and
`migrate`, each in the file that is named after it.
"""
