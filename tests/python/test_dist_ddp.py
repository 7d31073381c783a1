"""A stock DistributedDataParallel script on backend `muster`: beside gloo, and when workers are lost and come."""
import math
import re

import pytest
from cluster import FULL

pytest.importorskip('torch')

BEGIN = '''
    import hashlib
    import os
    import signal
    import sys
    import muster.torch
    import torch
    import torch.distributed as dist
    from gate import gate, together
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

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
    def train(backend, number, options):
        dist.init_process_group(backend)
        rank, size = dist.get_rank(), dist.get_world_size()
        model = network()
        # Several buckets, so that their reductions overlap.
        parallel = DistributedDataParallel(model, bucket_cap_mb=0.05, **options)
        optimizer = torch.optim.SGD(parallel.parameters(), lr=0.001, momentum=0.9)
        for step in range(30):
            x, y = samples(step, rank, size)
            loss = nn.functional.mse_loss(parallel(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rank == 0:
                print(f'loss {number} {backend} {loss.item():.9g}')
        print(f'bits {number} {backend}', digest(model), dist.get_backend(), size)
        dist.destroy_process_group()

    together(muster.join(), 2)
    for number, options in enumerate(({}, {'static_graph': True}, {'find_unused_parameters': True},
                                      {'gradient_as_bucket_view': True})):
        for backend in ('muster', 'gloo'):
            train(backend, number, options)
    muster.current().barrier('end')
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
    together(muster.join(), int(sys.argv[1]))
    model = nn.Linear(8, 1)
    while done < steps:
        try:
            if parallel is None:
                done, parallel = begin()
            gate(done + 1)
            x, y = samples(done, dist.get_rank(), dist.get_world_size())
            model.zero_grad()
            nn.functional.mse_loss(parallel(x), y).backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.01 * p.grad
            done += 1
            if dist.get_rank() == 0:
                print('step', done, dist.get_world_size(), flush=True)
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

# A gradient that hangs in the middle of backward, which is where it hears of the loss. First of three, then of two:
# each argument is a rank, and how it dies.
BACKWARD = BEGIN + '''
    def die(how):
        print('dies', flush=True)
        sys.exit(3) if how == 'exit' else os.kill(os.getpid(), signal.SIGKILL)

    def lose(victim, how):
        dist.init_process_group('muster')
        rank, size = dist.get_rank(), dist.get_world_size()
        model = network()
        parallel = DistributedDataParallel(model, bucket_cap_mb=0.05)
        for step in range(6):
            if step == 5 and rank == victim:
                die(how)
            loss = parallel(samples(step, rank, size)[0]).sum() if step < 5 else sum(p.sum() for p in model.parameters())
            if step >= 5:
                # Without the forward pass of DDP, which would hear of it first.
                parallel.reducer.prepare_for_backward([])
                parallel.reducer._rebuild_buckets()
            try:
                loss.backward()
            except muster.PeerLost as error:
                print('backward', size, error.status, flush=True)
        for again in range(2):
            try:
                dist.barrier()
            except muster.PeerLost as error:
                print('again', size, error.status, flush=True)
        dist.destroy_process_group()

    together(muster.join(), 3)
    for word in sys.argv[1:]:
        victim, how = word.split(':')
        lose(int(victim), how)
'''

# It is in the rendezvous with the others, and dies before it has told the store that it is there: the last of three,
# then the first of two.
HALFWAY = BEGIN + '''
    def lose(victim):
        if muster.current().rank == victim:
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
        print('together', dist.get_rank(), dist.get_world_size(), flush=True)
        dist.destroy_process_group()

    together(muster.join(), 3)
    lose(2)
    lose(0)
'''


def test_ddp_gives_the_losses_of_gloo_and_the_same_bits_on_every_rank(cluster):
    c = cluster(COMPARE, 2, flags=('--max-restarts', '0'))
    c.wait()
    for number in range(4):
        found = {}
        for backend in ('muster', 'gloo'):
            found[backend] = [float(line.split()[3]) for line in c.lines(f'loss {number} {backend} ')]
            bits = c.lines(f'bits {number} {backend} ')
            assert len(found[backend]) == 30 and len(bits) == 2 and len(set(bits)) == 1, (bits, found)
            assert bits[0].split()[4:] == [backend, '2'], bits
        assert all(math.isclose(a, b, rel_tol=1e-4) for a, b in zip(found['muster'], found['gloo'])), (number, found)
        assert found['muster'][-1] < found['muster'][0] / 2, found['muster']


@pytest.mark.parametrize('victim', [0, 2] if FULL else [0])
def test_survivors_of_a_kill_init_again_and_go_on_in_the_same_process(cluster, victim):
    c = cluster(ELASTIC, 3, args=[3, 40], flags=('--max-restarts', '0'), limit=5)
    c.stand(3)
    pids = {name: c.worker_pids(name) for name in c.nodes}
    gone = c.kill(victim)
    c.limit()
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
    assert len(set(range(1, 41)) - steps) <= 1, 'but for the one that rank 0 had done when it was killed'


def test_a_newcomer_gets_what_rank_0_has_and_who_is_drained_is_told_so_and_the_others_go_on(cluster):
    c = cluster(ELASTIC, 2, args=[2, 60], limit=5)
    c.stand(2)
    new = c.join()
    c.gather('a', 'b', new)
    assert c.lines('world 2 3', who=new)
    gone = c.drain(1)
    left = sorted(set(c.nodes) - {gone})
    c.gather(*left)
    c.limit()
    c.wait()
    stays, = {'a', 'b'} - {gone}  # Whoever was ready first is rank 0.
    assert [line.split()[2] for line in c.lines('world', stays)] == ['2', '3', '2'], c.lines('world')
    assert len(c.lines('left', gone)) == 1, c.out(gone)
    assert len({line for name in left for line in c.lines('bits', name)}) == 1, c.lines('bits')


@pytest.mark.parametrize('deaths', [('0:exit', '1:kill'), ('0:kill', '1:exit'), ('1:kill', '0:kill')] if FULL
                         else [('0:exit', '1:kill')], ids=' '.join)
def test_a_lost_peer_is_an_exception_of_backward(cluster, deaths):
    c = cluster(BACKWARD, 3, args=deaths, flags=('--max-restarts', '0'), nnodes='1:3')
    c.wait_lines('again 2', 2)
    assert c.lines('backward 3') == ['backward 3 -15'] * 2 and c.lines('backward 2') == ['backward 2 -15']
    assert c.lines('again 3') == ['again 3 -15'] * 4 and c.lines('again 2') == ['again 2 -15'] * 2
    assert len(c.lines('dies')) == 2


def test_a_worker_that_dies_during_init_process_group_is_not_waited_for(cluster):
    c = cluster(HALFWAY, 3, flags=('--max-restarts', '0'), nnodes='1:3')
    said = c.wait_lines('together', 3)
    assert sorted(re.match(r'together (\d \d)', line).group(1) for line in said) == ['0 1', '0 2', '1 2']
