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


ROSTER = '''
    import os
    import muster
    from gate import together
    with muster.join() as run:
        if os.environ.get('HELPS'):
            try:
                run.barrier()
            except muster.Invalid as error:
                print('refused', error.name)
            while run.serve(0.05):
                pass
            print('served')
        else:
            together(run, 2)
            roster = run.roster('ps')
            while not roster or roster[0].standing != 'serving':
                roster = run.roster('ps', after=roster.version)
            print('ps', roster[0].number, roster[0].role, bool(roster[0].address))
            print('members', [peer.number for peer in run.roster('worker')])
            try:
                run.roster('server')
            except ValueError as error:
                print('wrong', error)
            run.barrier('end')
'''


def test_a_helper_serves_and_is_found(cluster):
    c = cluster(ROSTER, 2)
    name = c.join(flags=('--role', 'ps'), HELPS=1)
    c.wait()
    assert c.lines('ps') == ['ps 0 ps True'] * 2
    assert c.lines('members') == ['members [0, 1]'] * 2
    assert c.lines('wrong') == ["wrong there is no role 'server': worker, chief, ps, evaluator"] * 2
    assert c.lines('', name) == ['refused MU_EINVAL', 'served']
