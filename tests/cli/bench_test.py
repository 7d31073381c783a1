#!/usr/bin/env python3
"""`muster bench`: what it prints, what it refuses, and that it leaves nothing behind.

usage: bench_test.py MUSTER
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import tap  # pylint: disable=wrong-import-position

LONG = 300  # Against hanging only.
# What they measure is of no interest here, so as little as shows that they do.
SHORT = ('--rounds', '2', '--repeats', '3')


def bench(*words):
    done = subprocess.run([sys.argv[1], 'bench', *words], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.PIPE, timeout=LONG, check=False)
    return done.returncode, done.stdout, done.stderr


def results(*words):
    status, out, err = bench('allreduce', '--json', *SHORT, *words)
    assert (status, err) == (0, ''), (status, err)
    report = json.loads(out)
    assert report['bench'] == 'allreduce' and report['version'].startswith('0.'), report
    return report['results']


def test_every_path_size_and_number_of_ranks_is_measured_beside_its_limit():
    found = results('--ranks', '2,3', '--bytes', '4K,300000', '--transport', 'shm,tcp')
    cells = [(r['transport'], r['ranks'], r['bytes'], r['kind']) for r in found]
    assert cells == [(t, n, b, k) for t in ('shm', 'tcp') for n in (2, 3) for b in (4096, 300000)
                     for k in ('allreduce', 'limit')], cells
    for result in found:
        assert result['rounds'] == 2 and len(result['us']) == 3, result
        assert result['us_per_call'] == sorted(result['us'])[1] > 0, result
        expected = result['bytes'] / result['us_per_call'] / 1e3
        assert abs(result['gb_per_s'] / expected - 1) < 0.01, result


def test_buffers_types_and_agreement_are_as_asked_for():
    one = ('--ranks', '2', '--transport', 'shm', '--no-limits')
    for dtype in ('f32', 'f64', 'bf16', 'f16', 'i32', 'i64', 'u8'):
        plain, = results(*one, '--bytes', '80024', '--dtype', dtype, '--plain-buffers')
        assert (plain['dtype'], plain['buffers'], plain['agree']) == (dtype, 'plain', False), plain
    agreed, = results(*one, '--bytes', '64K', '--agree')
    assert (agreed['buffers'], agreed['agree']) == ('shared', True), agreed


def test_as_many_rounds_are_done_as_take_the_time():
    status, out, err = bench('allreduce', '--json', '--ranks', '2', '--transport', 'shm',
                             '--no-limits', '--bytes', '4K', '--seconds', '0.3', '--repeats', '1')
    assert (status, err) == (0, ''), (status, err)
    assert json.loads(out)['results'][0]['rounds'] > 1, out


def test_the_table_has_a_line_for_each():
    status, out, err = bench('allreduce', *SHORT, '--ranks', '2', '--bytes', '8,1M')
    assert (status, err) == (0, ''), (status, err)
    lines = [line.split() for line in out.splitlines()]
    assert [line[:3] for line in lines[3:]] == [['shm', '2', '8'], ['shm', '2', '1'],
                                                ['tcp', '2', '8'], ['tcp', '2', '1']], out
    assert lines[2][-3:] == ['limit', 'GB/s', 'share'] and lines[4][3] == 'M', out


def test_what_is_not_asked_for_rightly_is_refused():
    for words, says in ((('ring',), "'ring' can't be measured; allreduce can"),
                        (('allreduce', '--ranks', '1'), '--ranks wants numbers of ranks from 2'),
                        (('allreduce', '--ranks', '2,'), "got '2,'"),
                        (('allreduce', '--ranks', '65'), 'to 64'),
                        (('allreduce', '--bytes', '4Q'), '--bytes wants sizes like 4K'),
                        (('allreduce', '--bytes', '4'), 'from 8 bytes'),
                        (('allreduce', '--bytes', '9G'), 'to 8G'),
                        (('allreduce', '--bytes', '10'), '10 bytes are no whole number of f32'),
                        (('allreduce', '--transport', 'udp'), "got 'udp'"),
                        (('allreduce', '--transport', ''), 'shm, tcp or both'),
                        (('allreduce', '--dtype', 'f8'), 'one of f32'),
                        (('allreduce', '--repeats', '65'), 'from 1 to 64'),
                        (('allreduce', '--bites', '4K'), '--bytes')):
        status, out, err = bench(*words)
        assert (status, out) == (2, '') and says in err, (words, status, err)


def test_where_it_is_not_installed_it_says_so():
    with tempfile.TemporaryDirectory() as folder:
        muster = os.path.join(folder, 'muster')
        shutil.copy2(sys.argv[1], muster)
        for words in (['bench', 'allreduce'], ['help', 'bench']):
            done = subprocess.run([muster, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  timeout=LONG, check=False)
            assert (done.returncode, done.stdout) == (1, ''), done
            assert f"can't run {folder}/muster-bench: No such file" in done.stderr, done.stderr
            assert 'to be installed beside muster' in done.stderr, done.stderr


def test_when_a_rank_is_lost_it_says_so_and_ends():
    with subprocess.Popen([sys.argv[1], 'bench', 'allreduce', '--ranks', '3', '--bytes', '4K',
                           '--transport', 'shm', '--seconds', '60', '--no-limits'],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        ranks = []
        while len(ranks) < 3:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.01)
            with open(f'/proc/{process.pid}/task/{process.pid}/children', encoding='ascii') as file:
                ranks = [int(pid) for pid in file.read().split()]
        os.kill(ranks[1], 9)
        _, err = process.communicate(timeout=LONG)
        assert process.returncode == 1 and '3 ranks over shm: rank ' in err, err
        for pid in ranks:
            assert not os.path.exists(f'/proc/{pid}'), pid


if __name__ == '__main__':
    tap.run(__name__)
