"""Which labels are probably missing or wrong, how sure that is, and the way of the answers back into the labels."""
