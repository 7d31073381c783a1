"""The job's settings, its events, and TensorFlow's cluster."""
import kit

ONCE = ('--max-restarts', '0')

SETTINGS = '''
    import threading, time
    import muster

    run = muster.join()
    run.wait()
    config = run.config
    first = run.rank == 0
    assert config.get('lr/none') is None
    if first:
        one = config.put('lr/base', 0.5, expect=0)
        two = config.put('lr/base', 'half', expect=one)
        assert two > one
        for wrong, kind in ((0, muster.Exists), (one, muster.Conflict)):
            try:
                config.put('lr/base', 'x', expect=wrong)
            except kind as error:
                print('refused', error.name)
        config.put('lr/flag', True)
        config.put('lr/bytes', bytes(range(5)))
    run.barrier('written')
    found = config.list('lr/')
    print('found', sorted((key, one.value) for key, one in found.items()))
    assert config.get('lr/base').text == 'half'
    run.barrier('read')
    if first:
        config.remove('lr/flag')
        try:
            config.remove('lr/flag')
        except KeyError as error:
            print('gone', error.name)
    run.barrier('removed')
    assert config.get('lr/flag') is None
    heard = []

    def hear():
        for setting in config.changes('signal/'):
            if not heard:
                config.put(f'hears/{run.rank}', 1)
            heard.append((setting.key, setting.text))
            if setting.key == 'signal/end':
                return

    thread = threading.Thread(target=hear)
    thread.start()
    if first:
        while len(config.list('hears/')) < 2:  # Changes are heard from when somebody listens: nobody can tell when.
            config.put('signal/go', 1)
            time.sleep(0.01)
        config.put('other', 1)
        config.put('signal/end', 2)
    thread.join()
    assert heard[-1] == ('signal/end', '2') and all(key.startswith('signal/') for key, _ in heard), heard
    try:
        config.watch('never', timeout=0.05)
    except TimeoutError as error:
        print('late', error.name)
    run.barrier('end')
'''


def test_settings_are_read_changed_and_watched(cluster):
    c = cluster(SETTINGS, 2, flags=ONCE, nnodes='2:2')
    c.wait()
    want = [('lr/base', b'half'), ('lr/bytes', bytes(range(5))), ('lr/flag', b'true')]
    assert c.lines('found') == [f'found {want}'] * 2
    assert c.lines('refused') == ['refused MU_EEXIST', 'refused MU_ECONFLICT']
    assert c.lines('gone') == ['gone MU_ENOENT'] and c.lines('late') == ['late MU_ETIMEDOUT'] * 2


def test_what_people_set_is_heard(cluster):
    c = cluster('''
        import muster
        run = muster.join()
        run.wait()
        version, changed = run.config.watch('word')
        print('heard', changed[0].text)
    ''', 1, flags=ONCE)

    def heard():
        c.orchestrator.say('config', 'put', 'word', 'hello')
        return c.lines('heard')
    kit.wait_until(heard, 'what was set is heard')  # Once more until then: it watches from some time on.
    c.wait()
    assert c.lines('heard') == ['heard hello']


TF = '''
    import json, os
    import muster
    from gate import together

    run = muster.join()
    together(run, 3)
    tf = muster.tf_config(run)
    said = json.loads(os.environ['TF_CONFIG'])
    assert said == tf.as_dict()
    assert tf.cluster_spec() == {'worker': said['cluster']['worker']} and len(set(said['cluster']['worker'])) == 3
    assert (tf.task_type, tf.task_id, tf.num_workers, tf.rpc_layer) == ('worker', run.rank, 3, 'grpc')
    assert tf.master() == 'grpc://' + said['cluster']['worker'][tf.task_id]
    assert tf.master('worker', 2) == 'grpc://' + said['cluster']['worker'][2]
    assert tf.refresh() is False and tf.num_accelerators() == {}
    try:
        tf.master('ps', 0)
    except ValueError:
        pass
    generation = tf.generation
    print('cluster', *said['cluster']['worker'], flush=True)
    run.wait(generation)
    assert tf.refresh() is True and tf.generation == run.generation > generation
    print('then', tf.task_id, tf.num_workers, json.loads(os.environ['TF_CONFIG'])['cluster'] == tf.cluster)
    run.barrier('end')
'''


def test_tensorflows_cluster_is_kept_current(cluster):
    c = cluster(TF, 3, flags=ONCE)
    assert len(set(c.wait_lines('cluster', 3))) == 1
    c.kill(0)
    c.wait()
    assert sorted(c.lines('then')) == ['then 0 2 True', 'then 1 2 True']


SAME_PORT = '''
    import muster
    from gate import together

    run = muster.join()
    together(run, 3)
    tf = muster.tf_config(run, port=None if run.node == 'c' else 12345)
    print('cluster', *sorted(tf.cluster['worker']))
    run.barrier('end')
'''


def test_two_workers_of_one_host_with_the_same_port_get_others_and_nobody_waits(cluster):
    c = cluster(SAME_PORT, 3, flags=ONCE)
    c.wait()
    found = set(c.lines('cluster'))
    assert len(found) == 1 and len(set(found.pop().split()[1:])) == 3


def test_tensorflows_cluster_alone_and_as_muster_run_says_it(alone):
    done = alone('''
        import json, os
        import muster
        tf = muster.tf_config()
        assert tf.master() == '' and tf.num_workers == 1 and 'TF_CONFIG' in os.environ
        muster.current().leave()
        os.environ['TF_CONFIG'] = json.dumps({'cluster': {'chief': ['a:1'], 'worker': ['b:2'], 'ps': ['c:3']},
                                              'task': {'type': 'worker', 'index': 0}})
        tf = muster.tf_config()
        assert muster.current() is None
        assert (tf.task_type, tf.task_id, tf.num_workers, tf.master()) == ('worker', 0, 2, 'grpc://b:2')
        os.environ['TF_CONFIG'] = 'nonsense'
        try:
            muster.tf_config()
        except muster.Invalid as error:
            print(error)
    ''')
    assert 'TF_CONFIG' in done.stdout


METRICS = '''
    import muster
    from gate import gate

    run = muster.join()
    run.keep('w', bytearray(8))
    run.gradient(2)
    run.metric('loss')
    sizes = []
    for epoch in run.epochs():
        for step in epoch.steps(64, 8):
            for part in step:
                gate(step.number)
                part.put(loss=3.5)
            run.log(accuracy=0.25)
            if sizes[-1:] != [run.size]:
                sizes.append(run.size)
                print('sizes', *sizes)
            if step.number == 40 and run.rank == 0:
                run.resize(1)
'''


def test_numbers_are_shown_and_a_worker_can_resize_its_job(cluster):
    c = cluster(METRICS, 2, flags=ONCE, nnodes='1:2', limit=0)
    c.gather('a', 'b')
    c.limit()
    kit.wait_until(lambda: any(line.endswith('2 1') for line in c.lines('sizes')), 'one goes on by itself')
    assert c.orchestrator.say('config', 'get', 'size') == '1\n'
    c.limit(0)  # What is shown is that of a job that stands still.
    kit.wait_until(lambda: all(word in str(c.job.status()) for word in ('accuracy', 'loss')), 'both are shown')
    assert len(c.job.members()) == 1
