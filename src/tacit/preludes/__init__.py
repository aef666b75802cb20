"""What is released once before round 0, to prepare the records for the training that follows."""
