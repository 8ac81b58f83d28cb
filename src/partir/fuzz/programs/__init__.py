"""Drawing programs and the numbers that they are given."""
