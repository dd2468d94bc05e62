"""What readers of a sink see in between: totals of transfers, which are 0 for any part of them."""
