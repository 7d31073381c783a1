#!/usr/bin/env python3
"""Many readers of one stream, in a process of their own: some read, some never do.

usage: clients.py PORT TOKEN PATH READERS DEAF

Prints a line of JSON when all are served, and another for each line of input: what has happened so
far. Ends with its input.
"""
import json
import os
import selectors
import socket
import sys

DEAF_BYTES = 4096  # that the system takes for one who never reads


class Reader:
    """Counts events; what has arrived of the next one is kept, in chunks and out of them."""

    def __init__(self, sock):
        self.sock = sock
        self.events = self.gaps = 0
        self.raw = self.text = b''
        self.ended = False

    def read(self):
        try:
            part = self.sock.recv(1 << 18)
        except ConnectionResetError:
            part = b''
        self.ended = not part
        self.raw += part
        while self.take_chunk():
            pass
        *blocks, self.text = self.text.split(b'\n\n')
        self.events += sum(b.startswith(b'id: ') for b in blocks)
        self.gaps += sum(b.startswith(b'event: gap') for b in blocks)

    def take_chunk(self):
        size, end, rest = self.raw.partition(b'\r\n')
        n = int(size, 16) if end else 0
        if not end or len(rest) < n + 2:
            return False
        self.text += rest[:n]
        self.raw = rest[n + 2:]
        return n > 0


def connect(port, token, path, deaf):
    sock = socket.socket()
    if deaf:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, DEAF_BYTES)
    sock.connect(('127.0.0.1', port))
    sock.sendall(f'GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n'
                 'Accept: text/event-stream\r\n\r\n'.encode())
    return sock


def first(sock):
    """The head of the answer; what comes after it is left."""
    while b'\r\n\r\n' not in (head := sock.recv(4096, socket.MSG_PEEK)):
        if not head:
            sys.exit('clients: a stream was closed before it began')
    if not head.startswith(b'HTTP/1.1 200 '):
        sys.exit(f'clients: {head!r}')
    sock.recv(head.index(b'\r\n\r\n') + 4)


def tell(readers):
    print(json.dumps({'readers': len(readers), 'events': sum(r.events for r in readers),
                      'least': min((r.events for r in readers), default=0),
                      'gaps': sum(r.gaps for r in readers),
                      'ended': sum(r.ended for r in readers)}), flush=True)


def main(port, token, path, readers_n, deaf_n):
    # On a machine of their own they would not compete with the server for its cores.
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    deaf = [connect(port, token, path, True) for _ in range(deaf_n)]
    readers = [Reader(connect(port, token, path, False)) for _ in range(readers_n)]
    selector = selectors.DefaultSelector()
    for reader in readers:
        first(reader.sock)
        selector.register(reader.sock, selectors.EVENT_READ, reader)
    selector.register(sys.stdin, selectors.EVENT_READ, None)
    tell(readers)
    while True:
        for key, _ in selector.select():
            if key.data is None:
                if not sys.stdin.buffer.raw.read(4096):
                    return len(deaf)
                tell(readers)
                continue
            key.data.read()
            if key.data.ended:
                selector.unregister(key.fileobj)


if __name__ == '__main__':
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
