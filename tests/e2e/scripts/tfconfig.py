"""Reads TF_CONFIG the way TensorFlow's TFConfigClusterResolver and multi-worker strategies do, by their
documentation, and then does what their servers do: each task of the cluster listens at its address, and everybody
reaches each of them. What came out is in $E2E_DIR/tf.GENERATION.NODE.SLOT.json; then it goes on as report.py."""
import json
import os
import socket
import threading
import time

import report

TYPES = ('chief', 'worker', 'ps', 'evaluator')


class Resolver:
    def __init__(self):
        self.config = json.loads(os.environ.get('TF_CONFIG', '{}'))
        self.cluster = self.config.get('cluster', {})
        task = self.config.get('task', {})
        self.type = task.get('type')
        self.index = int(task.get('index', 0))
        self.rpc_layer = self.config.get('rpc_layer', 'grpc')

    def master(self):
        """"": this process is the whole cluster."""
        if sum(map(len, self.cluster.values())) <= 1 and self.type != 'evaluator':
            return ''
        return f'{self.rpc_layer}://{self.address()}'

    def address(self):
        return None if self.type == 'evaluator' else self.cluster[self.type][self.index]

    def check(self):
        """What the strategies refuse to start with."""
        assert self.type in TYPES, self.config
        assert set(self.cluster) <= set(TYPES) - {'evaluator'}, self.config
        assert len(self.cluster.get('chief', [])) <= 1, self.config
        every = [address for tasks in self.cluster.values() for address in tasks]
        assert len(every) == len(set(every)), self.config
        if self.type != 'evaluator':
            assert 0 <= self.index < len(self.cluster[self.type]), self.config

    def is_chief(self):
        """Whoever saves checkpoints: the chief, or the first worker if there is none."""
        return self.type == 'chief' or ('chief' not in self.cluster and
                                        (self.type, self.index) == ('worker', 0))


def endpoint(address):
    host, _, port = address.rpartition(':')
    return host, int(port)


def serve(listener, name):
    while True:
        peer = listener.accept()[0]
        peer.sendall(name.encode())
        peer.close()


def reach(address):
    """The name of the task that listens there."""
    while True:
        try:
            with socket.create_connection(endpoint(address)) as peer:
                return peer.recv(64).decode()
        except ConnectionRefusedError:  # It is not there yet.
            time.sleep(0.02)


def main():
    resolver = Resolver()
    resolver.check()
    if resolver.address() is not None:
        listener = socket.create_server(endpoint(resolver.address()), backlog=64)
        threading.Thread(target=serve, args=(listener, f'{resolver.type}:{resolver.index}'),
                         daemon=True).start()
    found = {kind: [reach(address) for address in tasks] for kind, tasks in resolver.cluster.items()}
    result = {'generation': int(os.environ['MUSTER_GENERATION']), 'node': os.environ['MUSTER_NODE'],
              'cluster': resolver.cluster, 'type': resolver.type, 'index': resolver.index,
              'found': found, 'master': resolver.master() if resolver.type != 'evaluator' else None,
              'chief': resolver.is_chief(), 'rank': os.environ.get('RANK'), 'pid': os.getpid()}
    report.write('tf.{generation}.{node}.'.format(**result) + os.environ['MUSTER_SLOT'], result)
    report.main()


if __name__ == '__main__':
    main()
