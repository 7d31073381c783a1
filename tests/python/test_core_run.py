"""Being a worker: join, the world, sync, leaving, and what goes wrong."""
import re

WORLD = '''
    import muster
    from gate import together
    with muster.join() as run:
        together(run, 3)
        print('world', run.rank, run.size, run.local_rank, run.local_size, run.job, len(run.addresses))
        print('sync', [value.decode() for value in run.sync('names', run.node.encode())])
        print('agree', run.agree('same', b'x'), run.agree('other', run.node.encode()))
        run.barrier('end')
    print('after', run.rank, run.left, muster.current())
'''


def test_three_workers_know_each_other(cluster):
    c = cluster(WORLD, 3)
    c.wait()
    assert sorted(c.lines('world')) == [f'world {rank} 3 0 1 default 3' for rank in range(3)]
    assert len(set(c.lines('sync'))) == 1
    assert sorted(re.findall(r"'(\w)'", c.lines('sync')[0])) == ['a', 'b', 'c']
    assert c.lines('agree') == ['agree True False'] * 3
    assert c.lines('after') == ['after -1 True None'] * 3
