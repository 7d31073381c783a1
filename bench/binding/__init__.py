"""What a call costs more from Python than from C."""
