"""Pictures and pages from plain dictionaries. Never imports torch."""
