"""What is true of the Earth only: maps, wind sources, latitude bands and seasons."""
