"""raretag inside the tools that people already use: one file each, importing its package when it is first needed."""
