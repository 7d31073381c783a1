"""The parts of bench_checkpoint.py."""
