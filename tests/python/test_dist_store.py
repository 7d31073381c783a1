"""The store of the rendezvous: what TCPStore answers, it answers; strangers get nothing."""
import datetime
import random
import socket
import struct
import sys
import threading

import pytest
from cluster import FULL, PACKAGE

pytest.importorskip('torch')
sys.path.insert(0, PACKAGE)

import torch.distributed as dist  # noqa: E402
from muster import _muster, errors  # noqa: E402
from muster.torch import _meeting, _store  # noqa: E402

LONG_S = 30


class Alone:
    """A run of one, as far as the store asks."""

    def group_check(self, generation):
        assert generation == 1


@pytest.fixture
def server():
    one = _store.Server('127.0.0.1')
    yield one
    one.close()


def store(holder, port=0):
    place = _meeting.Place(1, 0, 1)
    return _meeting.Store(place, _meeting.Members(Alone(), 1), '127.0.0.1', port, holder)


def client(server, word=None):
    return _store.Client('127.0.0.1', server.port, server.word if word is None else word, LONG_S)


def answer(link, words):
    """All that comes until the other side hangs up, in whatever way."""
    found = b''
    try:
        link.sendall(words)
        link.shutdown(socket.SHUT_WR)
        while part := link.recv(1 << 16):
            found += part
    except TimeoutError:
        raise
    except OSError:
        pass  # It has hung up already.
    return found


@pytest.mark.parametrize('seed', range(3 if FULL else 1))  # TCPStore takes its time.
def test_calls_are_answered_as_tcpstore_answers_them(server, seed):
    chance = random.Random(seed)
    near, far = store(server), store(client(server))
    theirs = dist.TCPStore('localhost', 0, 1, True, datetime.timedelta(seconds=LONG_S), False)
    keys = [f'key {i}' for i in range(4)]
    values = ['', 'a', 'b', 'long' * 1000]
    for _ in range(150):
        ours, key = chance.choice((near, far)), chance.choice(keys)
        a, b, n = chance.choice(values), chance.choice(values), chance.randrange(-5, 5)
        what = chance.choice(('set', 'add', 'compare_set', 'delete', 'keys', 'get'))
        if what == 'set':
            ours.set(key, a)
            theirs.set(key, a)
        elif what == 'add':
            ours.add('n ' + key, n)
            assert ours.add('n ' + key, 0) == theirs.add('n ' + key, n)
        elif what == 'compare_set':
            assert ours.compare_set(key, a, b) == theirs.compare_set(key, a, b), (key, a, b)
        elif what == 'delete':
            assert ours.delete_key(key) == theirs.delete_key(key)
        elif what == 'get':
            ours.set(key, b)
            theirs.set(key, b)
            ours.wait([key])
            assert ours.get(key) == theirs.get(key)
        else:
            # TCPStore counts a key of its own once somebody waited for its workers; here nobody has.
            assert ours.num_keys() == theirs.num_keys()


def test_whoever_waits_hears_of_a_key_that_another_sets(server):
    far, near = store(client(server)), store(server)
    threading.Timer(0.2, near.set, ('key', b'\x00\xff')).start()
    assert far.get('key') == b'\x00\xff'


def test_a_key_that_nobody_sets_is_a_timeout_that_names_it(server):
    with pytest.raises(TimeoutError, match='nobody has set key'):
        store(client(server)).wait(['key'], datetime.timedelta(seconds=0.05))


def test_a_loss_ends_the_wait_for_an_answer_that_does_not_come():
    class Losing(Alone):
        def group_check(self, generation):
            if asked:
                raise errors.make(_muster.STATUSES['MU_EPEER'], 'somebody is gone')

    asked = []
    members = _meeting.Members(Losing(), 1)
    with socket.create_server(('127.0.0.1', 0)) as mute:
        port = mute.getsockname()[1]
        holder = _store.Client('127.0.0.1', port, 'word', 600, lambda: (asked.append(1), members.check()))
        with pytest.raises(errors.PeerLost, match='somebody is gone'):
            _meeting.Store(_meeting.Place(1, 0, 2), members, '127.0.0.1', port, holder).get('key')


def test_additions_of_many_at_once_are_all_counted(server):
    links = [store(client(server)) for _ in range(8)]
    threads = [threading.Thread(target=lambda one=one: [one.add('n', 1) for _ in range(100)]) for one in links]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store(server).add('n', 0) == 800


def test_strangers_and_those_who_talk_nonsense_are_hung_up_on(server):
    store(server).set('key', 'secret')
    with pytest.raises(OSError):
        client(server, '0' * len(server.word)).call(b'g', b'key', b'', b'')
    good = server.word.encode()
    field = struct.Struct('<I')
    nonsense = [good + field.pack(1 << 31), good + field.pack(1) + b'?' + 3 * field.pack(0),
                good + b''.join(field.pack(len(f)) + f for f in (b'a', b'key', b'no number', b'')), good[:5]]
    nonsense += [good + random.Random(i).randbytes(64) for i in range(20)]
    for words in nonsense:
        with socket.create_connection(('127.0.0.1', server.port), LONG_S) as link:
            assert b'secret' not in answer(link, words)
    assert store(client(server)).get('key') == b'secret', 'others are served as before'
