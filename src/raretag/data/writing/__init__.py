"""Files of a user written anew, with other labels in them."""
