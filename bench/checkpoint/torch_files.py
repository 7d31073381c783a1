#!/usr/bin/python3
"""The peer: as many bytes, by torch.save() and torch.load(). Prints seconds.

usage: torch_files.py save PATH BYTES     until it returned, and until the file was on the disk
       torch_files.py load PATH
"""
import os
import sys
import time

import torch


def save(path, size):
    state = {'state': torch.frombuffer(bytearray(os.urandom(size)), dtype=torch.uint8)}
    began = time.monotonic()
    torch.save(state, path)
    saved = time.monotonic()
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    print(saved - began, time.monotonic() - began)


def load(path):
    began = time.monotonic()
    state = torch.load(path)
    print(time.monotonic() - began)
    assert len(state['state']) > 0


if __name__ == '__main__':
    if sys.argv[1] == 'save':
        save(sys.argv[2], int(sys.argv[3]))
    else:
        load(sys.argv[2])
