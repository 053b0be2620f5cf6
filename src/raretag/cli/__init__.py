"""Parse, build, call, print. Starts fast: nothing here imports torch before there is work to do."""
