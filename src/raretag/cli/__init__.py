"""The `raretag` command: parse, call, print. Starts fast: nothing here loads torch before there is work to do."""
