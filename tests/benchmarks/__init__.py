"""Benchmarks: run by hand or by ``make bench``, never collected by pytest."""
