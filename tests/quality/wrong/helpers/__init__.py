"""What several of these scripts share."""
