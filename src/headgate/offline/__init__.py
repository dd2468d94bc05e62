"""Work on stored snapshots outside of any job: checks of upgrades, descriptions, rewriting, deletion.

The command `headgate` uses it, and so may programs: `check_upgrade` in `upgrade`, `describe_snapshot` in
`snapshot_pages`, `migrate` and `reslice` in `migrating`.
"""
