"""What holds for the Earth only."""
