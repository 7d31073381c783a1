"""The parts of bench_http.py."""
