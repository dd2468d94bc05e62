"""What is done about snapshots while no job runs: checks of upgrades, descriptions, rewriting, deletion.

The command `headgate` uses it, and so may programs: `check_upgrade` in `upgrade`, `describe_snapshot` in
`snapshot_pages`, `migrate` and `reslice` in `migrating`.
"""
