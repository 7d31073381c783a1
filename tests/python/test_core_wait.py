"""Waiting: other threads run on, Ctrl-C gets through, and the ends of a script are what they should be."""
import os
import signal
import subprocess
import textwrap

import cluster as module
import kit
import pytest

ONCE = ('--max-restarts', '0')

TOGETHER = textwrap.dedent('''
    import os, signal, sys, threading, time
    import numpy
    import muster
    from gate import together

    run = muster.join()
    together(run, 2)
    run.regroup()
''')


def after(text):
    return TOGETHER + textwrap.dedent(text)


GIL = after('''
    first = run.rank == 0
    turns = 0
    over = False
    folder = os.environ['GATE_DIR']

    def count(name):
        global turns
        while not over:
            turns += 1
            time.sleep(0.001)
            if turns == 20:
                open(os.path.join(folder, name), 'w').close()

    def wait_turns(name):
        """Until the other has turned, which it never does if a thread that waits keeps all others from running."""
        until = time.monotonic() + 20
        while not os.path.exists(os.path.join(folder, name)) and time.monotonic() < until:
            time.sleep(0.001)

    for name, wait in (('barrier', lambda: run.barrier('b')), ('meet', lambda: run.meet()),
                       ('allreduce', lambda: run.allreduce(numpy.ones(4))), ('sync', lambda: run.sync('s')),
                       ('finish', lambda: run.allreduce(numpy.ones(4), async_=True).wait()),
                       ('watch', lambda: run.config.watch('k', 0) if first else run.config.put('k', 1))):
        run.meet()
        if first:
            turns, over = 0, False
            thread = threading.Thread(target=count, args=(name,))
            thread.start()
            wait()
            over = True
            thread.join()
            print('turns', name, turns >= 20, turns)
        else:
            wait_turns(name)
            wait()
    run.barrier('end')  # Who leaves is lost for those who are still in their last collective.
''')


def test_another_thread_runs_on_while_one_waits(cluster):
    c = cluster(GIL, 2, flags=ONCE)
    c.wait()
    found = [line.split()[1:3] for line in c.lines('turns')]
    assert found == [[name, 'True'] for name in ('barrier', 'meet', 'allreduce', 'sync', 'finish', 'watch')], c.out()


INTERRUPT = after('''
    calls = {'barrier': lambda: run.barrier('never'), 'meet': lambda: run.meet(),
             'allreduce': lambda: run.allreduce(numpy.ones(1000)), 'wait': lambda: run.wait(run.generation),
             'watch': lambda: run.config.watch('never'), 'next': lambda: train()}

    def train():
        run.keep('w', bytearray(8))
        run.gradient(4)
        for epoch in run.epochs():
            for step in epoch.steps(100, 8):
                for part in step:
                    part.put()
                if step.number == 4:
                    print('in it', flush=True)

    if run.rank == 0 or sys.argv[1] == 'next':
        try:
            print('waits', os.getpid(), flush=True)
            calls[sys.argv[1]]()
        except KeyboardInterrupt:
            print('interrupted')
            if sys.argv[1] == 'next':  # Perhaps it was not waiting just then: then the run goes on.
                run.stop()
            try:
                run.barrier('after')
            except muster.Done as error:
                print('stopped', error)
            sys.exit(130)
        finally:
            print('left the call')
    else:
        try:
            run.wait(run.generation)  # until the other is gone
            print('another generation')
        except muster.Done:
            print('done')
''')


def check_interrupt(cluster, call):
    c = cluster(INTERRUPT, 2, args=(call,), flags=ONCE, nnodes='2:2')
    pid = int(c.wait_lines('waits')[0].split()[1])
    kit.wait_until(lambda: kit.stat_of(pid)[0] == 'S', 'it waits')
    if call == 'next':
        c.wait_lines('in it', 2)
    os.kill(pid, signal.SIGINT)
    c.wait_lines('interrupted')
    c.wait_lines('stopped')


def test_ctrl_c_ends_a_barrier(cluster):
    check_interrupt(cluster, 'barrier')


def test_ctrl_c_ends_a_collective(cluster):
    check_interrupt(cluster, 'allreduce')


def test_ctrl_c_ends_waiting_for_a_generation(cluster):
    check_interrupt(cluster, 'wait')


def test_ctrl_c_ends_a_watch(cluster):
    check_interrupt(cluster, 'watch')


def test_ctrl_c_ends_training(cluster):
    check_interrupt(cluster, 'next')


def start_alone(world, text):
    return subprocess.Popen([module.PYTHON, module.write_script(world.dir, text)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                            env=world.env(**module.environment()))


def test_ctrl_c_ends_a_script_alone_as_it_ends_any(world):
    """With a traceback, by the signal."""
    with start_alone(world, '''
        import muster
        run = muster.join()
        print('waits', flush=True)
        run.config.watch('never')
    ''') as process:
        assert process.stdout.readline() == 'waits\n'
        kit.wait_until(lambda: kit.stat_of(process.pid)[0] == 'S', 'it waits')
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT, (process.returncode, err)
    assert 'KeyboardInterrupt' in err


def test_ctrl_c_in_python_code_is_pythons(alone):
    done = alone('''
        import os, signal, time
        import muster
        run = muster.join()
        for _ in range(3):
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(60)
            except KeyboardInterrupt:
                print('caught')
        run.barrier('x')  # The run goes on.
        run.leave()
        print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
        except KeyboardInterrupt:
            print('caught')
    ''')
    assert done.stdout == 'caught\ncaught\ncaught\nTrue\ncaught\n'


def test_a_handler_of_the_scripts_own_stays(alone):
    done = alone('''
        import os, signal, time
        import muster
        signal.signal(signal.SIGINT, lambda *_: print('mine'))
        run = muster.join()
        os.kill(os.getpid(), signal.SIGINT)
        run.leave()
        os.kill(os.getpid(), signal.SIGINT)
    ''')
    assert done.stdout == 'mine\nmine\n'


def test_leaving_ends_the_waits_of_other_threads(alone):
    done = alone('''
        import threading, time
        import muster
        run = muster.join()
        ends = []

        def wait():
            try:
                run.config.watch('never')
            except muster.Done as error:
                ends.append(error.name)

        def sleeps(thread):
            with open(f'/proc/self/task/{thread.native_id}/stat') as file:
                return file.read().rpartition(')')[2].split()[0] == 'S'

        threads = [threading.Thread(target=wait) for _ in range(5)]
        for thread in threads:
            thread.start()
        looks = 0
        while looks < 20:  # A thread that is yet to call would run when this one sleeps.
            time.sleep(0.005)
            looks = looks + 1 if all(map(sleeps, threads)) else 0
        run.leave()
        for thread in threads:
            thread.join()
        print(*ends)
    ''')
    assert done.stdout.split() == ['MU_EDONE'] * 5


def test_a_forked_child_does_no_harm(cluster):
    c = cluster(after('''
        memory = run.alloc(4096)
        for how in ('exit', 'return', 'fail'):
            pid = os.fork()
            if pid == 0:
                try:
                    run.barrier('child')
                except muster.Invalid as error:
                    print('child', how, muster.current())
                sys.stdout.flush()
                if how == 'exit':
                    os._exit(0)
                if how == 'fail':
                    raise ZeroDivisionError
                memory = None
                sys.exit(0)
            print('ended', how, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        print('sum', run.allreduce(numpy.frombuffer(memory, 'uint8')).sum())
        run.barrier('end')
    '''), 2, flags=ONCE)
    c.wait()
    assert sorted(c.lines('ended')) == sorted(['ended exit 0', 'ended fail 1', 'ended return 0'] * 2)
    assert sorted(c.lines('child')) == sorted(['child exit None', 'child fail None', 'child return None'] * 2)
    assert c.lines('sum') == ['sum 0'] * 2


def test_processes_of_multiprocessing_do_no_harm(alone):
    done = alone('''
        import multiprocessing
        import muster
        run = muster.join()

        def work(n):
            return n * n

        if __name__ == '__main__':
            with multiprocessing.get_context('fork').Pool(2) as pool:
                print(pool.map(work, range(4)))
            run.barrier('x')
    ''')
    assert done.stdout == '[0, 1, 4, 9]\n'


def test_a_script_that_ends_well_leaves(cluster):
    """Without leave(): the job ends well, for nobody failed."""
    c = cluster(TOGETHER + "print('over')\n", 2, flags=ONCE)
    c.wait()
    assert c.lines('over') == ['over'] * 2


def test_a_script_that_fails_does_not(cluster):
    c = cluster(after('''
        if run.rank == 1:
            raise ValueError('this is why')
        try:
            while True:
                run.meet()
        except muster.PeerLost:
            print('lost')
    '''), 2, flags=ONCE, nnodes='1:2')
    c.wait_lines('lost')
    codes = c.wait(codes=(0, 1))
    assert sorted(codes.values()) == [0, 1], codes
    assert 'this is why' in c.errors()


EXITS = '''
    import os, sys
    import muster
    run = muster.join()
    weights = bytearray(8)
    run.keep('weights', weights)
    run.gradient(2)
    mark = os.path.join(os.path.dirname(__file__), 'mark')
    for epoch in run.epochs(8):
        for step in epoch.steps(100, 10, slices=2):
            for part in step:
                memoryview(part.gradient)[:] = bytes(8)
                part.put()
            if step.number == 20 and run.size == 2 and run.rank == 1 and not os.path.exists(mark):
                open(mark, 'w').close()
                print('exits', flush=True)
                raise SystemExit(eval(sys.argv[1]))
    print('done', step.number, run.done)
'''


@pytest.mark.parametrize('code', ['3', '"this is why"'])
def test_an_exit_code_that_is_not_0_is_a_failure_and_no_end_of_the_work(cluster, code):
    c = cluster(EXITS, 2, args=(code,), nnodes='2:2')
    c.wait()
    assert c.lines('exits') == ['exits'] and c.lines('done') == ['done 80 True'] * 2
    assert 'failed, exit code' in c.errors()
    assert c.errors().count('has finished') <= 2, c.errors()


def test_an_exception_in_a_with_block_is_no_end_of_the_work(cluster):
    c = cluster(after('''
        try:
            with run:
                if run.rank == 1:
                    raise ValueError
                while True:
                    run.meet()
        except ValueError:
            print('mine', run.left)
            sys.exit(3)
        except muster.PeerLost:
            print('lost', run.left)
    '''), 2, flags=ONCE, nnodes='1:2')
    c.wait(codes=(0, 1, 3))
    assert c.lines('mine') == ['mine True'] and c.lines('lost') == ['lost True']
