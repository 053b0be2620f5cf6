"""All settings of a run, checked, and the recipes of the papers. Loads no torch."""
