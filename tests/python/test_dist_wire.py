"""No pickle on the wire: what workers send each other is captured, while one joins and all train."""
import ctypes
import os
import re
import socket
import struct
import subprocess
import threading

import pytest
from cluster import ROOT

pytest.importorskip('torch')

CLONE_NEWNET = 0x40000000
ETH_P_ALL = 3
PACKET_BYTES = 1 << 17
NEEDLE = 'a word that is in run.state'

# How each protocol of pickle begins, and what the older ones, and torch's and numpy's classes, always have inside.
PICKLES = (b'\x80\x04\x95', b'\x80\x05\x95', b'torch._utils', b'_rebuild_tensor', b'c__builtin__\n', b'cbuiltins\n',
           b'ccollections\n', b'ccopy_reg\n', b'cnumpy', b'ctorch', b'multiarray')

TRAIN = f'''
    import muster.torch
    import torch

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    run = muster.torch.join(model, optimizer, scheduler)
    data = torch.utils.data.TensorDataset(torch.randn(64, 6), torch.randn(64, 1))
    run.state['word'] = {NEEDLE!r}
    run.state['steps of three'] = 0
    for epoch in run.epochs():
        for step in epoch.steps(data, global_batch=16, slices=4, seed=1):
            for x, y in step:
                step.backward((model(x) - y).pow(2).mean())
            optimizer.step()
            run.state['steps of three'] += run.size == 3
        scheduler.step()
        world = run.world
        print('port', world.addresses[world.rank].rpartition(':')[2], run.size, flush=True)
        if run.state['steps of three'] > 40:
            break
    print('done', flush=True)
'''

OBJECTS = '''
    import muster.torch
    import torch.distributed as dist
    from gate import together
    world = together(muster.join(), 2)
    print('port', world.addresses[world.rank].rpartition(':')[2], flush=True)
    dist.init_process_group('muster')
    print(dist.get_backend())
    found = [None] * 2
    dist.all_gather_object(found, {'by': 'torch, as a pickle'})     # The user asked for it.
    print('done', found[0], flush=True)
'''


@pytest.fixture(scope='module')
def network():
    """A loopback that nobody else is on, from now on."""
    if ctypes.CDLL(None).unshare(CLONE_NEWNET) != 0:
        pytest.skip('packets can be captured by root only')
    subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)


class Capture:
    """What TCP connections over loopback carry, by their two ports."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.socket.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE: none are dropped.
        self.socket.bind(('lo', 0))
        self.socket.settimeout(0.1)
        self.streams = {}
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.main)
        self.thread.start()

    def main(self):
        while True:
            try:
                packet, where = self.socket.recvfrom(PACKET_BYTES)
            except TimeoutError:
                if self.ended.is_set():
                    return
                continue
            if where[2] != socket.PACKET_OUTGOING:  # Each is seen twice.
                self.take(packet[14:])

    def take(self, packet):
        if packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_TCP:
            return
        end = struct.unpack_from('!H', packet, 2)[0]
        tcp = packet[(packet[0] & 15) * 4:end or len(packet)]
        ports = struct.unpack_from('!HH', tcp)
        self.streams.setdefault(ports, bytearray()).extend(tcp[(tcp[12] >> 4) * 4:])

    def close(self):
        self.ended.set()
        self.thread.join()
        self.socket.close()

    def of(self, ports):
        """All that went to or from one of these, connection by connection."""
        return [bytes(data) for pair, data in self.streams.items() if set(pair) & set(ports)]


def pickles(streams):
    return sorted({mark for mark in PICKLES for data in streams if mark in data})


def captured(cluster, script, workers, then=lambda c: None):
    capture = Capture()
    try:
        c = cluster(script, workers, env={'MUSTER_TRANSPORT': 'tcp', 'MUSTER_TLS': '0'})
        then(c)
        c.wait()
    finally:
        capture.close()
    return c, capture.of({int(line.split()[1]) for line in c.lines('port')})


def test_training_and_joining_send_no_pickle(network, cluster):
    def join(c):
        c.wait_lines('port', 2)
        c.join()

    c, streams = captured(cluster, TRAIN, 2, join)
    assert len(c.lines('done')) == 3 and any(line.endswith(' 3') for line in c.lines('port'))
    assert sum(map(len, streams)) > 20_000, [len(data) for data in streams]
    assert any(NEEDLE.encode() in data for data in streams), 'the state that the newcomer got was captured'
    assert pickles(streams) == []


def test_the_capture_would_show_a_pickle(network, cluster):
    c, streams = captured(cluster, OBJECTS, 2)
    assert len(c.lines('done')) == 2
    assert pickles(streams) != []


def test_the_package_imports_nothing_that_pickles():
    folder = os.path.join(ROOT, 'python', 'muster')
    seen = 0
    for where, _, names in os.walk(folder):
        for name in names:
            if name.endswith('.py'):
                with open(os.path.join(where, name), encoding='utf-8') as file:
                    text = file.read()
                seen += 1
                assert not re.search(r'^\s*(import|from)\s+(\w+,\s*)*(pickle|_pickle|marshal|shelve|dill|cloudpickle)\b',
                                     text, re.M), name
                assert not re.search(r'torch\.(save|load)\(|_object(_list)?\(', text), name
    assert seen > 10
