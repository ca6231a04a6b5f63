"""What is true of the Earth only: maps, wind sources, latitude bands and seasons."""

RADIUS = 6_371_008.8
"""Mean radius of the Earth in metres."""
