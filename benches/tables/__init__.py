"""What the tables of this folder share."""
