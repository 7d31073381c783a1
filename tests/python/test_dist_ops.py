"""Backend `muster` of torch.distributed: each operation and type, beside gloo's.

Scripts follow each other in the same processes: importing torch takes longer than all of them.
"""
import textwrap

import cluster as tools
import kit
import pytest

pytest.importorskip('torch')

BEGIN = '''
    import os
    import time
    import muster.torch
    import torch
    import torch.distributed as dist
    from gate import together

    run = muster.join()
    together(run, 3)
    dist.init_process_group('muster')
    rank, size = dist.get_rank(), dist.get_world_size()
    gloo = dist.new_group(backend='gloo')
'''

REDUCE = '''
    ops = dist.ReduceOp

    def numbers(dtype, seed, shape=(37, 11)):
        """Other ones on each rank; small, so that sums are exact in every type."""
        return torch.randint(0, 9, shape, generator=torch.Generator().manual_seed(100 * rank + seed)).to(dtype)

    def expect(x, op):
        """By gloo, which knows neither the mean nor bfloat16."""
        wide = x.to(torch.float64, copy=True)
        dist.all_reduce(wide, op=ops.SUM if op == ops.AVG else op, group=gloo)
        if op == ops.AVG:
            wide = wide / size if x.dtype.is_floating_point else torch.div(wide, size, rounding_mode='trunc')
        return wide.to(x.dtype)

    def check(what, got, want):
        same = got.shape == want.shape and got.dtype == want.dtype and torch.equal(got, want)
        if not same:
            print('WRONG', what, got.flatten()[:4].tolist(), want.flatten()[:4].tolist())
        return same

    n = 0
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.int64, torch.uint8):
        for op in (ops.SUM, ops.MIN, ops.MAX, ops.AVG):
            name = f'{dtype} {op}'
            if op == ops.AVG:   # So that a mean is exact.
                source = numbers(dtype, n) * size
            else:
                source = numbers(dtype, n)
            want = expect(source, op)
            x = source.clone()
            dist.all_reduce(x, op=op)
            n += check('all_reduce ' + name, x, want)
            x = source.clone().t()                      # It has gaps.
            dist.all_reduce(x, op=op)
            n += check('transposed ' + name, x, want.t())
            x = source.clone()
            dist.reduce(x, 1, op=op)
            n += check('reduce ' + name, x, want if rank == 1 else source)
            rows = torch.stack([numbers(dtype, 1000 + n + i, (5, 3)) * (size if op == ops.AVG else 1)
                                for i in range(size)])
            want = expect(rows, op)[rank]
            x = torch.empty(5, 3, dtype=dtype)
            dist.reduce_scatter(x, list(rows), op=op)
            n += check('reduce_scatter ' + name, x, want)
            x = torch.empty(5, 3, dtype=dtype)
            dist.reduce_scatter_tensor(x, rows, op=op)
            n += check('reduce_scatter_tensor ' + name, x, want)
    a, b = torch.ones(3), torch.full((2, 2), float(rank))
    dist.all_reduce_coalesced([a, b])
    n += check('coalesced', a, torch.full((3,), float(size))) + check(
        'coalesced', b, torch.full((2, 2), size * (size - 1) / 2))
    c = torch.tensor([1 + 2j * rank])
    dist.all_reduce(c)
    n += check('complex', c, torch.tensor([size + 1j * size * (size - 1)]))
    e = torch.empty(0)
    dist.all_reduce(e)
    print('right', name_of_part, n)
'''

MOVE = '''
    n = 0
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int8, torch.int16, torch.int32,
                  torch.int64, torch.uint8, torch.bool, torch.complex64):
        mine = (torch.arange(12).view(3, 4) * (rank + 1) % 7).to(dtype)
        wide = (mine.real if dtype.is_complex else mine).to(torch.float64, copy=True)   # gloo has no complex numbers
        for root in range(size):
            x, want = mine.clone(), wide.clone()
            dist.broadcast(x, root)
            dist.broadcast(want, root, group=gloo)
            n += torch.equal(x, want.to(dtype))
            x = mine.clone().t()
            dist.broadcast(x, root)
            n += torch.equal(x, want.to(dtype).t())
        want = [torch.empty_like(wide) for _ in range(size)]
        dist.all_gather(want, wide, group=gloo)
        got = [torch.empty_like(mine) for _ in range(size)]
        dist.all_gather(got, mine)
        n += all(torch.equal(a, b.to(dtype)) for a, b in zip(got, want))
        got = torch.empty(3 * size, 4, dtype=dtype)
        dist.all_gather_into_tensor(got, mine)
        n += torch.equal(got, torch.cat(want).to(dtype))
        # Round a ring, and back and forth between two.
        x, got = mine.clone(), torch.empty_like(mine)
        pair = [dist.P2POp(dist.isend, x, (rank + 1) % size), dist.P2POp(dist.irecv, got, (rank - 1) % size)]
        for work in dist.batch_isend_irecv(pair if rank else pair[::-1]):
            work.wait()
        n += torch.equal(got, want[(rank - 1) % size].to(dtype))
        if rank == 0:
            dist.send(mine, 1, tag=5)
            dist.recv(got, 1, tag=6)
            n += torch.equal(got, want[1].to(dtype))
        elif rank == 1:
            got = torch.empty_like(mine).t()
            dist.recv(got.t(), 0, tag=5)
            n += torch.equal(got.t(), want[0].to(dtype))
            dist.send(mine, 0, tag=6)
        else:
            n += 1
        dist.barrier()
    big, got = torch.full((1 << 20,), float(rank)), torch.empty(1 << 20)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, big, (rank + 1) % size),
                                        dist.P2POp(dist.irecv, got, (rank - 1) % size)]):
        work.wait()
    n += bool((got == (rank - 1) % size).all())
    print('right', name_of_part, n)
'''

ASYNC = '''
    tensors = [torch.full((1000 + i,), float(rank)) for i in range(50)]
    works = [dist.all_reduce(t, async_op=True) for t in tensors]
    futures = [work.get_future().then(lambda f: f.value()[0].sum().item()) for work in works[::2]]
    for work in reversed(works):
        assert work.wait() and work.is_completed() and work.is_success() and work.exception() is None
    want = size * (size - 1) / 2
    assert all((t == want).all() for t in tensors)
    assert [f.wait() for f in futures] == [want * len(t) for t in tensors[::2]]
    mark = os.path.join(os.environ['GATE_DIR'], 'many')
    while rank > 0 and not os.path.exists(mark):        # Rank 0 is far ahead.
        time.sleep(0.001)
    for i in range(5000):                               # Nobody of rank 0 waits for those, nor keeps them.
        x = torch.full((1,), float(i) if rank == 0 else 0.0)
        work = dist.all_reduce(x, async_op=True)
        if rank == 0 and i == 1000:
            open(mark, 'w').close()
        if rank > 0:
            work.wait()
            assert x.item() == i, (x.item(), i)
    x = torch.ones(1)
    dist.all_reduce(x)
    print('right', name_of_part, x.item())
'''

WRONG = '''
    def wrong(what, call):
        try:
            call()
        except Exception as error:
            print(what, type(error).__name__, error)
        else:
            print(what, 'passed')

    one, ops = torch.ones(2), dist.ReduceOp
    wrong('product', lambda: dist.all_reduce(one, op=ops.PRODUCT))
    wrong('int8', lambda: dist.all_reduce(one.to(torch.int8)))
    wrong('device', lambda: dist.all_reduce(one.to('meta')))
    wrong('sparse', lambda: dist.all_reduce(one.to_sparse()))
    wrong('gather', lambda: dist.gather(one, [one] * size if rank == 0 else None))
    wrong('alltoall', lambda: dist.all_to_all_single(torch.ones(size), torch.ones(size)))
    wrong('anysource', lambda: dist.recv(one))
    wrong('few', lambda: dist.all_gather([one], one))
    wrong('long', lambda: dist.all_gather([torch.ones(3)] * size, one))
    wrong('twice', lambda: dist.init_process_group('muster'))
    dist.all_reduce(one)                                # All of that was refused before it began.
    print('right', name_of_part, one.tolist())
'''

STOP = '''
    parallel = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))
    loss = parallel(torch.ones(3)).sum()
    run.barrier('end')
    run.stop()
    for name, call in (('backward', loss.backward), ('barrier', dist.barrier)):
        try:
            call()
        except Exception as error:
            print('stopped', name, type(error).__name__)
'''


PARTS = {'REDUCE': REDUCE, 'MOVE': MOVE, 'ASYNC': ASYNC, 'WRONG': WRONG, 'STOP': STOP}


@pytest.fixture(scope='module')
def said():
    """said(begin) -> lines, of all three ranks; each part has names of its own."""
    script = textwrap.dedent(BEGIN)
    for name, part in PARTS.items():
        script += f'def part(name_of_part):\n{textwrap.indent(textwrap.dedent(part), "    ")}\npart({name!r})\n'
    with kit.World() as world:
        c = tools.Cluster(world, script, 3, flags=('--max-restarts', '0'))
        codes = c.wait(codes=range(-64, 256))
        out, errors = c.out(), c.errors()
    return lambda begin: [line for line in out.splitlines() if line.startswith(begin)] or [f'{codes} {errors[-3000:]}']


def test_reductions_of_every_type_give_what_gloo_gives(said):
    assert said('right REDUCE') == [f'right REDUCE {7 * 4 * 5 + 3}'] * 3, said('WRONG')[:5]


def test_broadcast_all_gather_and_sends_move_every_type(said):
    assert said('right MOVE') == [f'right MOVE {11 * (3 * 2 + 4) + 1}'] * 3


def test_background_operations_can_be_waited_for_in_any_order_or_never(said):
    assert said('right ASYNC') == ['right ASYNC 3.0'] * 3


def test_what_the_backend_has_not_is_a_clear_error_and_the_group_goes_on(said):
    assert said('right WRONG') == ['right WRONG [3.0, 3.0]'] * 3
    for name, words in (('product', 'NotImplementedError backend muster has no ReduceOp.PRODUCT'),
                        ('int8', 'TypeError all_reduce: backend muster does not reduce torch.int8'),
                        ('device', 'TypeError all_reduce: backend muster has no meta tensors: for those, '
                         'muster.torch.process_group(run, backend="nccl")'),
                        ('sparse', 'TypeError all_reduce: backend muster has no sparse tensors'),
                        ('gather', 'NotImplementedError backend muster has no gather'),
                        ('alltoall', 'NotImplementedError backend muster has no alltoall'),
                        ('anysource', 'NotImplementedError backend muster has no recv_anysource'),
                        ('few', 'ValueError all_gather: a list of 3 tensors is needed'),
                        ('long', 'ValueError all_gather: all outputs must have'),
                        ('twice', 'RuntimeError trying to initialize the default process group twice')):
        found = said(name + ' ')
        assert len(found) == 3 and all(line.startswith(f'{name} {words}') for line in found), found


def test_a_worker_that_is_stopped_hears_so_by_the_same_exception_in_backward_as_elsewhere(said):
    assert said('stopped backward') == ['stopped backward Done'] * 3
    assert said('stopped barrier') == ['stopped barrier Done'] * 3


# One process, without an agent: what is muster's business comes last.
BY_ITSELF = '''
    import datetime
    import os
    import muster.torch
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp

    def child(rank, port):
        os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port))
        dist.init_process_group('gloo', rank=rank, world_size=2)
        x = torch.ones(1)
        dist.all_reduce(x)
        os.write(1, f'child {x.item()}\\n'.encode())  # In one piece: both write there.

    with __import__('socket').create_server(('127.0.0.1', 0)) as probe:
        port = probe.getsockname()[1]
    mp.start_processes(child, (port,), nprocs=2, start_method='fork')

    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='0', RANK='0', WORLD_SIZE='1')
    dist.init_process_group('gloo')
    print('launcher', dist.get_backend(), dist.get_rank(), dist.get_world_size())
    dist.destroy_process_group()
    store = dist.TCPStore('localhost', 0, 2, True, datetime.timedelta(seconds=30), False)
    try:
        dist.init_process_group('muster', store=store, rank=0, world_size=2)
    except RuntimeError as error:
        print('launcher', error)
    muster.current().leave()

    for name in ('MASTER_ADDR', 'MASTER_PORT', 'RANK', 'WORLD_SIZE'):
        del os.environ[name]
    dist.init_process_group('muster')
    x = torch.arange(3.0)
    dist.all_reduce(x)
    print('self', dist.get_rank(), dist.get_world_size(), dist.get_backend(), x.tolist(), os.environ['RANK'],
          os.environ['WORLD_SIZE'], os.environ['LOCAL_RANK'])
'''


@pytest.fixture(scope='module')
def by_itself():
    """by_itself(begin) -> lines; if there are none, why."""
    done = tools.alone(BY_ITSELF, check=False, timeout=120)
    return lambda begin: [line for line in done.stdout.splitlines() if line.startswith(begin)] or [done.stderr[-3000:]]


def test_a_process_by_itself_is_rank_0_of_1(by_itself):
    assert by_itself('self') == ['self 0 1 muster [0.0, 1.0, 2.0] 0 1 0']


def test_ranks_of_another_launcher_are_torchs_business(by_itself):
    found = by_itself('launcher')
    assert found[0] == 'launcher gloo 0 1' and len(found) == 2, found
    assert found[1].startswith('launcher backend muster: this process is to be rank 0 of 2, but it was not started by '
                               '`muster run`'), found


def test_ranks_that_a_script_gives_its_own_children_are_torchs_business_too(by_itself):
    assert by_itself('child') == ['child 2.0'] * 2
