"""A stock DistributedDataParallel script on backend `muster`: beside gloo, and when workers are lost and come."""
import math
import re

import kit
import pytest
from cluster import FULL, Cluster

pytest.importorskip('torch')

BEGIN = '''
    import hashlib
    import os
    import signal
    import sys
    import time
    import muster.torch
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    def wait_size(n):
        run = muster.current() or muster.join()
        while run.size < n:
            run.wait(run.generation)

    def digest(model):
        return hashlib.sha256(b''.join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()

    def network():
        torch.manual_seed(dist.get_rank())     # DDP begins with rank 0's.
        return nn.Sequential(nn.Linear(8, 64), nn.BatchNorm1d(64), nn.Tanh(), nn.Linear(64, 500), nn.Tanh(),
                             nn.Linear(500, 1))

    def samples(step, rank, size, batch=48):
        x = torch.randn(batch, 8, generator=torch.Generator().manual_seed(step))
        y = x @ torch.arange(1.0, 9.0)
        return x[rank::size], y[rank::size, None]
'''

COMPARE = BEGIN + '''
    wait_size(2)
    dist.init_process_group(sys.argv[1])
    rank, size = dist.get_rank(), dist.get_world_size()
    model = network()
    # Several buckets, so that their reductions overlap.
    parallel = DistributedDataParallel(model, bucket_cap_mb=0.05, **eval(sys.argv[2]))
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.001, momentum=0.9)
    for step in range(30):
        x, y = samples(step, rank, size)
        loss = nn.functional.mse_loss(parallel(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f'loss {loss.item():.9g}')
    print('bits', digest(model), dist.get_backend(), size)
    dist.destroy_process_group()
'''

# As one would write it: whoever is left goes on, in the same process, with what rank 0 has.
ELASTIC = BEGIN + '''
    def begin():
        dist.init_process_group('muster')
        print('world', dist.get_rank(), dist.get_world_size(), os.getpid(), os.environ['RANK'],
              os.environ['WORLD_SIZE'], flush=True)
        step = torch.tensor([done])
        dist.broadcast(step, 0)
        return int(step), DistributedDataParallel(model)

    done, steps, parallel = 0, int(sys.argv[2]), None
    wait_size(int(sys.argv[1]))
    model = nn.Linear(8, 1)
    while done < steps:
        try:
            if parallel is None:
                done, parallel = begin()
            x, y = samples(done, dist.get_rank(), dist.get_world_size())
            model.zero_grad()
            nn.functional.mse_loss(parallel(x), y).backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.01 * p.grad
            done += 1
            if dist.get_rank() == 0:
                print('step', done, dist.get_world_size(), flush=True)
            time.sleep(0.005)
            if not muster.torch.grown():
                continue
        except muster.PeerLost as error:
            print('lost', done, error, flush=True)
        except (muster.Stale, muster.Done) as error:
            print('left', done, error, flush=True)
            break
        parallel = None
        dist.destroy_process_group()
    print('bits', digest(model), done, flush=True)
'''

# A gradient that hangs in the middle of backward, which is where it hears of the loss.
BACKWARD = BEGIN + '''
    wait_size(3)
    dist.init_process_group('muster')
    rank = dist.get_rank()
    model = network()
    parallel = DistributedDataParallel(model, bucket_cap_mb=0.05)
    for step in range(10):
        if step == 5 and rank == int(sys.argv[1]):
            print('dies', time.monotonic(), flush=True)
            sys.exit(3) if sys.argv[2] == 'exit' else os.kill(os.getpid(), signal.SIGKILL)
        loss = parallel(samples(step, rank, 3)[0]).sum() if step < 5 else sum(p.sum() for p in model.parameters())
        if step >= 5:
            # Without the forward pass of DDP, which would hear of it first.
            parallel.reducer.prepare_for_backward([])
            parallel.reducer._rebuild_buckets()
        try:
            loss.backward()
        except muster.PeerLost as error:
            print('backward', time.monotonic(), error.status, flush=True)
            break
    for again in range(2):
        try:
            dist.barrier()
        except muster.PeerLost as error:
            print('again', error.status, flush=True)
'''

# It is in the rendezvous with the others, and dies before it has told the store that it is there.
HALFWAY = BEGIN + '''
    wait_size(3)
    if (muster.current().rank == 0) == (sys.argv[1] == 'first'):
        if sys.argv[1] == 'first' or muster.current().rank == 2:
            next(dist.rendezvous('env://'))
            os.kill(os.getpid(), signal.SIGKILL)
    for attempt in range(3):
        try:
            dist.init_process_group('muster')
            dist.barrier()
            break
        except muster.PeerLost as error:
            print('lost', error, flush=True)
            dist.destroy_process_group()
    print('together', dist.get_rank(), dist.get_world_size(), attempt, flush=True)
'''


def losses(c):
    c.wait()
    return [float(line.split()[1]) for line in c.lines('loss')], {line.split()[1] for line in c.lines('bits')}


OPTIONS = ['{}', '{"static_graph": True}']
if FULL:
    OPTIONS += ['{"find_unused_parameters": True}', '{"gradient_as_bucket_view": True}']


@pytest.mark.parametrize('options', OPTIONS)
def test_ddp_gives_the_losses_of_gloo_and_the_same_bits_on_every_rank(options):
    found = {}
    for backend in ('muster', 'gloo'):
        with kit.World() as other:
            c = Cluster(other, COMPARE, 2, args=[backend, options], flags=('--max-restarts', '0'))
            found[backend], bits = losses(c)
            assert len(bits) == 1 and len(found[backend]) == 30, (bits, found)
            assert {line.split()[2] for line in c.lines('bits')} == {backend}
    assert all(math.isclose(a, b, rel_tol=1e-4) for a, b in zip(found['muster'], found['gloo'])), found
    assert found['muster'][-1] < found['muster'][0] / 2, found['muster']


@pytest.mark.parametrize('victim', [0, 2])
def test_survivors_of_a_kill_init_again_and_go_on_in_the_same_process(cluster, victim):
    c = cluster(ELASTIC, 3, args=[3, 400], flags=('--max-restarts', '0'))
    c.wait_lines('step 40 3')
    pids = {name: c.worker_pids(name) for name in c.nodes}
    gone = c.kill(victim)
    c.wait()
    left = sorted(set(c.nodes) - {gone})
    for name in left:
        worlds = [line.split()[1:] for line in c.lines('world', name)]
        assert [w[1] for w in worlds] == ['3', '2'], worlds
        assert {int(w[2]) for w in worlds} == set(pids[name]), 'it is the same process'
        assert all(w[0] == w[3] and w[1] == w[4] for w in worlds), 'the variables say the same'
    assert sorted(line.split()[1] for name in left for line in c.lines('world', name)[1:]) == ['0', '1']
    assert len({line for name in left for line in c.lines('bits', name)}) == 1
    steps = {int(line.split()[1]) for line in c.lines('step')}
    assert len(set(range(1, 401)) - steps) <= 1, 'but for the one that rank 0 had done when it was killed'


def test_a_newcomer_is_in_the_next_group_and_gets_what_rank_0_has(cluster):
    c = cluster(ELASTIC, 2, args=[2, 1500])
    c.wait_lines('step 40 2')
    new = c.join()
    c.wait_lines('world 2 3', who=new)
    c.wait()
    worlds = [line.split()[2] for line in c.lines('world', 'a')]
    assert worlds == ['2', '3'], worlds
    assert len(set(c.lines('bits'))) == 1 and len(c.lines('bits')) == 3, c.lines('bits')


def test_a_worker_that_is_drained_is_told_so_and_the_others_go_on(cluster):
    c = cluster(ELASTIC, 3, args=[3, 1500])
    c.wait_lines('step 40 3')
    gone = c.drain(1)
    c.wait()
    assert len(c.lines('left', gone)) == 1, c.out(gone)
    left = sorted(set(c.nodes) - {gone})
    assert len({line for name in left for line in c.lines('bits', name)}) == 1
    assert all(c.lines('world', name)[-1].split()[2] == '2' for name in left)


@pytest.mark.parametrize('victim,how', [(0, 'kill'), (1, 'kill'), (1, 'exit')])
def test_a_lost_peer_is_an_exception_of_backward_within_a_second(cluster, victim, how):
    c = cluster(BACKWARD, 3, args=[victim, how], flags=('--max-restarts', '0'))
    c.wait_lines('backward', 2)
    died = float(c.lines('dies')[0].split()[1])
    for line in c.lines('backward'):
        _, at, status = line.split()
        assert int(status) == -15 and float(at) - died < 10, 'generously: the machine may be busy'
    c.wait_lines('again -15', 4)


@pytest.mark.parametrize('who', ['first', 'last'])
def test_a_worker_that_dies_during_init_process_group_is_not_waited_for(cluster, who):
    c = cluster(HALFWAY, 3, args=[who], flags=('--max-restarts', '0'))
    said = c.wait_lines('together', 2)
    assert sorted(re.match(r'together (\d) 2 ', line).group(1) for line in said) == ['0', '1']
