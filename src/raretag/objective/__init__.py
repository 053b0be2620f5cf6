"""The plain parts that many methods share. What belongs to one paper alone lives in that paper's file in `methods`."""
