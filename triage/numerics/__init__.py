"""What numbers say: pure arithmetic over what was measured."""
