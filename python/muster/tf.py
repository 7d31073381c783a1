"""A cluster resolver for TensorFlow's multi-worker strategies, without TensorFlow.

It has the fields and methods of `tf.distribute.cluster_resolver.TFConfigClusterResolver`, and is kept
current by generations. It was written after TensorFlow's documentation: TensorFlow is not packaged
for Debian, and muster's tests never run with it.
"""
from __future__ import annotations

import json
import os
import socket
from typing import Any

from . import run as _run
from .errors import Invalid

_EINVAL = -2


class ClusterConfig:
    """Who is in the cluster, and who this worker is. refresh() when the generation has changed.

    cluster: {"worker": ["host:port", …]}. task_type, task_id: this worker's. rpc_layer: "grpc"."""

    rpc_layer = 'grpc'
    environment = ''

    def __init__(self, run: '_run.Run | None', port: int | None) -> None:
        self._run = run
        self._port = port
        self.generation = 0
        self.cluster: dict[str, list[str]] = {}
        self.task_type = 'worker'
        self.task_id = 0
        self.refresh()

    def refresh(self) -> bool:
        """Asks for the newest generation; whether it is another one. All its workers must do so: each
        tells the others where its server is. Sets TF_CONFIG, which TensorFlow reads."""
        if self._run is None:
            return self._read_environment()
        if self._run.generation == self.generation != 0:
            return False
        port = self._port or _free_port()
        while True:
            self._run.wait()
            world = self._run.world
            host = world.addresses[world.rank].rpartition(':')[0] if world.size > 1 else ''
            said = f'{host or "127.0.0.1"}:{port}'
            generation, values = self._run.core.sync('muster.tf_config', said.encode())
            workers = [value.decode() for _, value in values]
            if len(set(workers)) == len(workers):
                break
            if workers.count(said) > 1:  # Two workers of one host have the same: all ask again.
                port = _free_port()
        self.generation = generation
        self.cluster = {'worker': workers}
        self.task_id = workers.index(said)
        os.environ['TF_CONFIG'] = json.dumps(self.as_dict())
        return True

    def _read_environment(self) -> bool:
        """As `muster run` has set it for a script that it starts anew in every generation."""
        try:
            said = json.loads(os.environ['TF_CONFIG'])
            self.cluster = said.get('cluster', {})
            task = said.get('task', {})
            changed = (self.task_type, self.task_id) != (task.get('type'), task.get('index'))
            self.task_type, self.task_id = task.get('type', 'worker'), int(task.get('index', 0))
        except (ValueError, AttributeError, TypeError) as error:
            raise Invalid(_EINVAL, f'TF_CONFIG is not what TensorFlow reads: {error}') from None
        return changed

    def as_dict(self) -> dict[str, Any]:
        """What TF_CONFIG says."""
        return {'cluster': self.cluster, 'task': {'type': self.task_type, 'index': self.task_id},
                'rpc_layer': self.rpc_layer}

    # ---- as TensorFlow's resolvers have it ----

    def cluster_spec(self) -> dict[str, list[str]]:
        """What tf.train.ClusterSpec() takes."""
        return {name: list(tasks) for name, tasks in self.cluster.items()}

    def master(self, task_type: str | None = None, task_id: int | None = None,
               rpc_layer: str | None = None) -> str:
        """Where a task's server is: "grpc://host:port"; "" if the cluster has one task only."""
        if sum(map(len, self.cluster.values())) <= 1:
            return ''
        kind = self.task_type if task_type is None else task_type
        number = self.task_id if task_id is None else task_id
        try:
            return f'{rpc_layer or self.rpc_layer}://{self.cluster[kind][number]}'
        except (KeyError, IndexError):
            raise Invalid(_EINVAL, f'there is no task {kind} {number} in {self.cluster}') from None

    def num_accelerators(self, *_: Any, **__: Any) -> dict[str, int]:
        """muster does not know; TensorFlow finds out by itself."""
        return {}

    @property
    def num_workers(self) -> int:
        return sum(len(tasks) for name, tasks in self.cluster.items() if name in ('chief', 'worker'))


def tf_config(run: '_run.Run | None' = None, port: int | None = None) -> ClusterConfig:
    """The cluster of a run, for TensorFlow's multi-worker strategies; sets TF_CONFIG. Without a run it
    is that of this process, joined if need be; or what `muster run` has said in TF_CONFIG, of a script
    that it starts anew in every generation. port: of this worker's server; None: a free one.

    TensorFlow can't be installed from Debian's packages, so this is not tested against it."""
    if run is None:
        run = _run.current()
    if run is None and 'TF_CONFIG' not in os.environ:
        run = _run.join()
    return ClusterConfig(run, port)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(('', 0))
        return one.getsockname()[1]
