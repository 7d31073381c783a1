"""The parts of bench_step.py."""
