"""The parts of bench_recovery.py."""
