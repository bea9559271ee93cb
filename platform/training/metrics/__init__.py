"""What is measured while learning and scoring, and the gate that judges it."""
