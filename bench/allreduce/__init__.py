"""The parts of bench_allreduce.py."""
