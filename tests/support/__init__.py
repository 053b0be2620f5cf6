"""What several tests share: tables of cases, items with labels, trained runs."""
