"""A key-value store for the rendezvous of torch.distributed, held by one worker and used by all.

torch's own TCPStore is not used: in a client whose server is killed it ends the whole process, or
spins. This one is a dict behind a socket. Whoever connects says a word that is told among workers
only. A request is a letter and three fields, each with its length before it; an answer is one field.
"""
import hmac
import secrets
import select
import socket
import struct
import threading
import time

LENGTH = struct.Struct('<I')
FIELD_MAX = 16 << 20
LOOK_MS = 20
MISSING, FOUND = b'-', b'+'


def send_fields(link, *fields):
    link.sendall(b''.join(LENGTH.pack(len(field)) + field for field in fields))


def read_exactly(link, n):
    parts = []
    while n > 0:
        part = link.recv(min(n, 1 << 16))
        if not part:
            raise ConnectionError('the other side has closed the connection')
        parts.append(part)
        n -= len(part)
    return b''.join(parts)


def read_field(link):
    n = LENGTH.unpack(read_exactly(link, LENGTH.size))[0]
    if n > FIELD_MAX:
        raise ConnectionError(f'a field of {n} bytes is too long')
    return read_exactly(link, n)


class Values:
    """What the store holds. Each call is made as a whole."""

    def __init__(self):
        self._values = {}
        self._lock = threading.Lock()

    def call(self, what, key, first, second):
        with self._lock:
            return self.CALLS[what](self, key, first, second)

    def _get(self, key, _first, _second):
        return FOUND + self._values[key] if key in self._values else MISSING

    def _set(self, key, value, _second):
        self._values[key] = value
        return b''

    def _add(self, key, amount, _second):
        self._values[key] = b'%d' % (int(self._values.get(key, b'0')) + int(amount))
        return self._values[key]

    def _compare_set(self, key, expected, desired):
        """As TCPStore does it: what is there afterwards; of a key that is not, what was expected."""
        value = self._values.get(key)
        if value == expected or (value is None and not expected):
            value = self._values[key] = desired
        return expected if value is None else value

    def _delete(self, key, _first, _second):
        return b'1' if self._values.pop(key, None) is not None else b'0'

    def _count(self, _key, _first, _second):
        return b'%d' % len(self._values)

    CALLS = {b'g': _get, b's': _set, b'a': _add, b'c': _compare_set, b'd': _delete, b'n': _count}


class Server:
    """In the worker that holds it: a thread that listens, and one for each other worker."""

    def __init__(self, host, word=None):
        """word: what only those know who may use it; None: it makes one."""
        family = socket.AF_INET6 if ':' in host else socket.AF_INET
        self.word = word or secrets.token_hex(16)
        self._values = Values()
        self._socket = socket.create_server((host, 0), family=family)
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._listen, name='muster-store', daemon=True).start()

    def call(self, *fields):
        return self._values.call(*fields)

    def close(self):
        """Those who are connected may go on."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)  # Or else the thread would not wake up.
        except OSError:
            pass
        self._socket.close()

    def _listen(self):
        while True:
            try:
                link, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(link,), name='muster-store', daemon=True).start()

    def _serve(self, link):
        with link:
            try:
                if not hmac.compare_digest(read_exactly(link, len(self.word)), self.word.encode()):
                    return
                while True:
                    send_fields(link, self.call(*(read_field(link) for _ in range(4))))
            except (OSError, KeyError, ValueError):
                return  # It is gone, or does not know the protocol.


class Client:
    """In the others. look: called from time to time while the other side has not answered; it may raise."""

    def __init__(self, host, port, word, timeout_s, look=lambda: None):
        self._lock = threading.Lock()
        self._timeout_s = timeout_s
        self._look = look
        self._link = socket.create_connection((host, port), timeout_s)
        self._link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._link.sendall(word.encode())

    def call(self, *fields):
        with self._lock:
            try:
                send_fields(self._link, *fields)
                self._wait()
                return read_field(self._link)
            except BaseException:
                self._link.close()  # An answer that comes later is not to be taken for that of the next call.
                raise

    def close(self):
        self._link.close()

    def _wait(self):
        until = time.monotonic() + self._timeout_s
        answer = select.poll()
        answer.register(self._link, select.POLLIN)
        while not answer.poll(LOOK_MS):
            self._look()
            if time.monotonic() > until:
                raise TimeoutError(f'the store has not answered within {self._timeout_s} s')
