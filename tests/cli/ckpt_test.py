#!/usr/bin/env python3
"""`muster ckpt` on checkpoints as runs write them, whole and damaged, and `muster run --ckpt-…`.

usage: ckpt_test.py MUSTER CKPT_MAKE
"""
import contextlib
import functools
import json
import os
import struct
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import tap  # pylint: disable=wrong-import-position

MUSTER, MAKE = map(os.path.abspath, sys.argv[1:3])
FAILED, USAGE, NOT_FOUND = 1, 2, 5
CHUNK = 4 << 20
PARTS = {'weights': 2 * CHUNK + 4000, 'bias': 400, 'step': 8, 'odd': 13, 'empty': 0}


def clean_env(**more):
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(('MUSTER_', 'PET_'))}
    return {**env, 'TZ': 'UTC', **more}


def run(*words, env=None, cwd=None):
    done = subprocess.run([MUSTER, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          check=False, timeout=60, env=env or clean_env(), cwd=cwd)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def ckpt(*words):
    return run('ckpt', *map(str, words))


def make(folder, job, step, shards=2, how='plain', parts=None):
    subprocess.run([MAKE, folder, job, str(step), str(shards), how,
                    *(f'{name}={n}' for name, n in (parts or PARTS).items())],
                   check=True, timeout=60)


@contextlib.contextmanager
def folder(*steps, **how):
    """A folder in which job `a` has checkpoints of these steps."""
    with tempfile.TemporaryDirectory(prefix='muster-ckpt-') as path:
        for step in steps:
            make(path, 'a', step, **how)
        yield path


def at(path, step, name='', job='a'):
    return os.path.join(path, job, f'step-{step:012}', name)


def steps_of(path, job='a'):
    return sorted(int(name[5:]) for name in os.listdir(os.path.join(path, job))
                  if name.startswith('step-'))


def flip(path, offset):
    with open(path, 'r+b') as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


@functools.cache
def content(name):
    """What ckpt_make puts into a part."""
    n = PARTS[name]
    return struct.pack(f'<{n // 4}f', *(i / 2 for i in range(n // 4))) + b'\7' * (n % 4)


# ---- what there is ----

def test_ls_shows_checkpoints_with_the_newest_first():
    with folder(1000, 1200, 90) as path:
        make(path, 'b.long-name', 5, parts={'x': 100})
        status, out, err = ckpt('ls', path)
        assert (status, err) == (0, ''), err
        rows = [line.split() for line in out.splitlines()]
        assert rows[0] == ['JOB', 'STEP', 'EPOCH', 'SAVED', 'SIZE'], out
        assert [row[:5] for row in rows[1:]] == \
            [['a', '1200', '1', '2023-11-14', '22:13:20'], ['a', '1000', '1', '2023-11-14', '22:13:20'],
             ['a', '90', '0', '2023-11-14', '22:13:20'],
             ['b.long-name', '5', '0', '2023-11-14', '22:13:20']], out
        assert all(row[6] in ('MiB', 'KiB', 'B') for row in rows[1:]), out
        assert len({line.index('2023') for line in out.splitlines()[1:]}) == 1, out
        assert not any(line.endswith(' ') for line in out.splitlines()), out
        status, of_b, err = ckpt('ls', path, 'b.long-name')
        assert (status, err) == (0, '') and of_b.splitlines()[0].split()[0] == 'STEP', of_b
        assert len(of_b.splitlines()) == 2, of_b


def test_ls_as_json_has_exact_numbers():
    with folder(1200, shards=3) as path:
        status, out, err = ckpt('ls', path, '--json')
        assert (status, err) == (0, ''), err
        one = json.loads(out)
        disk = one.pop('disk_bytes')
        assert disk >= sum(PARTS.values()) and one.pop('version').startswith('0.'), one
        assert one == {'job': 'a', 'step': 1200, 'epoch': 1, 'saved': '2023-11-14T22:13:20.000Z',
                       'run': 3, 'generation': 4, 'samples': 76800, 'offset': 0,
                       'seed': str(2 ** 64 - 1), 'data': 60000, 'batch': 64, 'slices': 8,
                       'bytes': sum(PARTS.values()), 'shards': 3, 'chunks': 3, 'zstd': False}, one


def test_an_empty_folder_has_no_checkpoints():
    with folder() as path:
        assert ckpt('ls', path) == (0, f'no checkpoints in {path}\n', '')
        assert ckpt('ls', '--json', path) == (0, '', '')
        os.mkdir(os.path.join(path, 'a'))  # as a job that has not saved yet
        os.mkdir(os.path.join(path, 'a', '.step-000000000007.gone'))
        status, out, err = ckpt('ls', path, 'a')
        assert (status, out) == (NOT_FOUND, '') and f'no checkpoints of job a in {path}' in err, err


def test_show_tells_the_place_and_the_parts():
    with folder(1000, 1200, how='zstd') as path:
        status, out, err = ckpt('show', path, 'a')
        assert (status, err) == (0, ''), err
        lines = out.splitlines()
        assert lines[0] == 'job a  step 1200  epoch 1', out
        assert lines[1].startswith('  saved: 2023-11-14 22:13:20, ') and ' days ago' in lines[1]
        assert '  run: 3, generation 4' in lines and ', compressed' in out, out
        assert f'  data: 60000 samples, 64 a step, seed {2 ** 64 - 1}' in lines, out
        assert f'({sum(PARTS.values())} bytes) in 3 chunks, 2 shards' in out, out
        table = [line.split() for line in lines[-len(PARTS) - 1:]]
        assert table[0] == ['PART', 'BYTES', 'SIZE'], out
        assert [(name, int(n)) for name, n, *_ in table[1:]] == list(PARTS.items()), out
        assert table[1][2:] == ['8.0', 'MiB'] and table[5][2:] == ['0', 'B'], out
        assert ckpt('show', path, 'a', '1000')[1].startswith('job a  step 1000  ')
        assert ckpt('show', path, 'a', 'step-000000001000')[1].startswith('job a  step 1000  ')
        one = json.loads(ckpt('show', path, 'a', '--json')[1])
        assert one['step'] == 1200 and one['zstd'] is True
        assert one['parts'] == [{'name': name, 'bytes': n} for name, n in PARTS.items()], one


def test_part_names_of_any_bytes_can_be_shown():
    with folder() as path:
        make(path, 'a', 1, 1, parts={'é': 1, os.fsdecode(b'\xff\xfe'): 2})
        status, out, err = ckpt('show', path, 'a')
        assert (status, err) == (0, '') and '  é ' in out and '  ?? ' in out, (out, err)
        one = json.loads(ckpt('show', path, 'a', '--json')[1])
        assert [part['name'] for part in one['parts']] == ['é', '??'], one


# ---- verify ----

def test_what_is_intact_is_said_to_be():
    for how in ('plain', 'zstd'):
        with folder(1000, 1200, how=how) as path:
            assert ckpt('verify', path, 'a') == \
                (0, 'step 1200 of job a is intact: 3 chunks, 8.0 MiB\n', '')
            status, out, err = ckpt('verify', path, 'a', '--all')
            assert (status, err) == (0, ''), err
            assert [line.split()[1] for line in out.splitlines()] == ['1200', '1000'], out
            status, out, _ = ckpt('verify', '--json', path, 'a', 1000)
            assert status == 0 and json.loads(out) == \
                {'job': 'a', 'step': 1000, 'intact': True, 'chunks': 3,
                 'bytes': sum(PARTS.values())}, out


def test_a_damaged_chunk_is_named_with_its_file_and_the_checkpoint_before_it():
    with folder(1000, 1100, 1200) as path:
        flip(at(path, 1100, 'shard-0001'), CHUNK + 17)  # chunk 2: shard 1 has 1 and 2
        status, out, err = ckpt('verify', path, 'a', 1100)
        assert (status, out) == (FAILED, ''), out
        assert 'step 1100 of job a is damaged: ' in err and 'chunk 2' in err, err
        assert 'shard-0001' in err and 'the one before it is step 1000\n' in err, err
        status, out, err = ckpt('verify', path, 'a', '--all')
        assert status == FAILED and err.count('\n') == 1 and 'step 1100' in err, err
        assert [line.split()[1] for line in out.splitlines()] == ['1200', '1000'], out
        status, out, _ = ckpt('verify', path, 'a', '--all', '--json')
        ones = [json.loads(line) for line in out.splitlines()]
        assert status == FAILED and [one['intact'] for one in ones] == [True, False, True], ones
        assert 'chunk 2' in ones[1]['damaged'], ones
        assert ckpt('verify', path, 'a')[0] == 0
        flip(at(path, 1000, 'shard-0000'), 0)
        status, _, err = ckpt('verify', path, 'a', 1000)
        assert status == FAILED and 'there is none before it' in err, err


def test_a_damaged_manifest_or_a_missing_shard_is_found_by_all():
    with folder(1000, 1200) as path:
        flip(at(path, 1200, 'manifest'), 30)
        for verb in ('show', 'verify'):
            status, out, err = ckpt(verb, path, 'a')
            assert (status, out) == (FAILED, '') and 'manifest' in err, (verb, err)
            assert 'the one before it is step 1000\n' in err, err
        status, out, err = ckpt('ls', path)
        assert (status, err) == (0, '') and out.splitlines()[0].split()[0] == 'JOB', (out, err)
        assert '  damaged: manifest' in out.splitlines()[1] and 'damaged' not in out.splitlines()[2], out
        ones = [json.loads(line) for line in ckpt('ls', path, 'a', '--json')[1].splitlines()]
        assert 'manifest' in ones[0]['damaged'] and 'damaged' not in ones[1], ones
        os.unlink(at(path, 1000, 'shard-0001'))
        status, _, err = ckpt('verify', path, 'a', 1000)
        assert status == FAILED and 'shard-0001' in err and 'none before it' in err, err


# ---- rm ----

def test_rm_removes_what_is_named_and_nothing_else():
    with folder(900, 1000, 1100, 1200) as path:
        make(path, 'b', 1000, parts={'x': 1})
        status, out, err = ckpt('rm', path, 'a', 1000, 'step-000000001200', 1000)
        assert (status, err) == (0, ''), err
        assert [line.split()[1] for line in out.splitlines()] == ['1000', '1200'], out
        assert steps_of(path) == [900, 1100] and steps_of(path, 'b') == [1000]
        status, out, err = ckpt('rm', path, 'a', 900, 7)
        assert (status, out) == (NOT_FOUND, '') and 'no checkpoint of step 7 of job a' in err, err
        assert 'the newest is step 1100, the oldest step 900' in err, err
        assert steps_of(path) == [900, 1100]


def test_rm_keeps_the_last_one_unless_it_is_forced():
    with folder(1000, 1200) as path:
        status, out, err = ckpt('rm', path, 'a', 1200, 1000)
        assert (status, out) == (FAILED, '') and '--force' in err, err
        assert steps_of(path) == [1000, 1200]
        assert ckpt('rm', path, 'a', 1000)[0] == 0
        status, out, err = ckpt('rm', path, 'a', 1200)
        assert (status, out) == (FAILED, '') and 'no checkpoint left' in err, err
        assert steps_of(path) == [1200]
        assert ckpt('rm', '--force', path, 'a', 1200)[0] == 0
        assert steps_of(path) == []
        assert ckpt('rm', '--force', path, 'a', 1200)[0] == NOT_FOUND


def test_rm_does_not_leave_damaged_ones_alone_unless_it_is_forced():
    with folder(900, 1000, 1200) as path:
        for step in (900, 1200):
            os.truncate(at(path, step, 'manifest'), 10)
        status, out, err = ckpt('rm', path, 'a', 1000)
        assert (status, out) == (FAILED, '') and 'damaged checkpoints left' in err, err
        assert ckpt('rm', path, 'a', 1200)[0] == 0 and steps_of(path) == [900, 1000]
        assert ckpt('rm', path, 'a', 1000, '--force')[0] == 0 and steps_of(path) == [900]


# ---- export ----

def npy(data):
    """(type, shape, bytes) of one array in NumPy's format."""
    assert data[:8] == b'\x93NUMPY\x01\x00', data[:8]
    n = struct.unpack('<H', data[8:10])[0]
    head = eval(data[10:10 + n], {})  # pylint: disable=eval-used
    assert (10 + n) % 64 == 0 and head['fortran_order'] is False, head
    return head['descr'], head['shape'], data[10 + n:]


def test_an_exported_npz_holds_every_part_byte_for_byte():
    for how in ('plain', 'zstd'):
        with folder(1200, how=how) as path:
            to = os.path.join(path, 'out.npz')
            status, out, err = ckpt('export', path, 'a', '--to', to)
            assert (status, err) == (0, ''), err
            assert out == f'step 1200 of job a is in {to}: 5 parts, 8.0 MiB\n', out
            with zipfile.ZipFile(to) as file:
                assert file.testzip() is None
                assert file.namelist() == [name + '.npy' for name in PARTS], file.namelist()
                for name, n in PARTS.items():
                    kind, shape, data = npy(file.read(name + '.npy'))
                    assert (kind, shape) == ('|u1', (n,)) and data == content(name), name


def test_an_exported_npz_can_have_floats():
    with folder(1000, 1200) as path:
        to = os.path.join(path, 'out.npz')
        assert ckpt('export', path, 'a', 1000, '--f32', '--to', to)[0] == 0
        with zipfile.ZipFile(to) as file:
            for name, n in PARTS.items():
                kind, shape, data = npy(file.read(name + '.npy'))
                want = ('<f4', (n // 4,)) if n % 4 == 0 else ('|u1', (n,))
                assert (kind, shape) == want and data == content(name), (name, kind, shape)


def test_numpy_opens_what_is_exported():
    python = next((path for path in (sys.executable, '/usr/bin/python3')
                   if subprocess.run([path, '-c', 'import numpy'], check=False,
                                     stderr=subprocess.DEVNULL).returncode == 0), None)
    if python is None:
        tap.skip('numpy is not installed')
    with folder(1200, how='zstd') as path:
        to = os.path.join(path, 'out.npz')
        assert ckpt('export', path, 'a', '--f32', '--to', to)[0] == 0
        script = 'import numpy, sys\n' \
                 'z = numpy.load(sys.argv[1], allow_pickle=False)\n' \
                 'w = z["weights"]\n' \
                 'assert w.dtype == numpy.float32 and (w == numpy.arange(len(w)) / 2).all(), w\n' \
                 'print(*((name, len(z[name])) for name in z.files))\n'
        out = subprocess.run([python, '-c', script, to], check=True, stdout=subprocess.PIPE).stdout
        assert out.decode().split('\n')[0] == ' '.join(
            str((name, n if n % 4 else n // 4)) for name, n in PARTS.items()), out


def test_raw_files_are_the_parts():
    with folder(1200) as path:
        to = os.path.join(path, 'raw')
        assert ckpt('export', path, 'a', '--raw', '--to', to)[0] == 0
        assert sorted(os.listdir(to)) == sorted(PARTS), os.listdir(to)
        for name in PARTS:
            with open(os.path.join(to, name), 'rb') as file:
                assert file.read() == content(name), name


def test_what_is_there_is_replaced_only_if_that_was_said():
    with folder(1200) as path:
        to = os.path.join(path, 'out.npz')
        with open(to, 'wb') as file:
            file.write(b'precious')
        status, out, err = ckpt('export', path, 'a', '--to', to)
        assert (status, out) == (FAILED, '') and 'is there already; --force' in err, err
        with open(to, 'rb') as file:
            assert file.read() == b'precious'
        assert ckpt('export', path, 'a', '--to', to, '--force')[0] == 0
        assert zipfile.is_zipfile(to)
        to = os.path.join(path, 'raw')
        os.mkdir(to)
        assert ckpt('export', path, 'a', '--raw', '--to', to + '/')[0] == 0  # an empty one will do
        status, out, err = ckpt('export', path, 'a', '--raw', '--to', to)
        assert (status, out) == (FAILED, '') and 'name a new folder' in err, err
        os.mkdir(os.path.join(path, 'dir.npz'))
        status, _, err = ckpt('export', path, 'a', '--force', '--to', os.path.join(path, 'dir.npz'))
        assert status == FAILED and 'is a folder; name a file' in err, err
        status, _, err = ckpt('export', path, 'a', '--to', os.path.join(path, 'no', 'x.npz'))
        assert status == FAILED and 'x.npz' in err and 'No such file' in err, err


def test_a_part_that_may_be_somebody_elses_stays():
    with folder(1200) as path:
        mine = os.path.join(path, 'raw.part')
        os.mkdir(mine)
        for name in (os.path.join(mine, 'precious'), os.path.join(path, 'out.npz.part')):
            with open(name, 'wb'):
                pass
        for words in (('--raw', '--to', 'raw//'), ('--to', 'out.npz')):
            status, out, err = ckpt('export', path, 'a', *words[:-1], os.path.join(path, words[-1]))
            assert (status, out) == (FAILED, '') and '.part is there' in err, err
        assert os.listdir(mine) == ['precious']
        assert ckpt('export', path, 'a', '--force', '--to', os.path.join(path, 'out.npz'))[0] == 0


def test_nothing_is_exported_from_a_damaged_one():
    with folder(1000, 1200) as path:
        flip(at(path, 1200, 'shard-0001'), 5)
        for words in (('--to', 'out.npz'), ('--to', 'raw', '--raw')):
            words = [os.path.join(path, word) if word in ('out.npz', 'raw') else word for word in words]
            status, out, err = ckpt('export', path, 'a', *words)
            assert (status, out) == (FAILED, '') and 'chunk 1' in err and 'shard-0001' in err, err
            assert 'the one before it is step 1000' in err, err
            assert sorted(os.listdir(path)) == ['a'], os.listdir(path)


# ---- what is not there, and what can't be meant ----

def test_what_is_not_there_is_named():
    with folder(1200) as path:
        make(path, 'b', 5, parts={'x': 1})
        missing = os.path.join(path, 'no', 'where')
        for words in (('ls', missing), ('ls', missing, 'a'), ('show', missing, 'a'),
                      ('verify', missing, 'a'), ('rm', missing, 'a', '1'),
                      ('export', missing, 'a', '--to', 'x.npz')):
            status, out, err = ckpt(*words)
            assert (status, out) == (NOT_FOUND, ''), words
            assert err == f'muster ckpt: there is no folder {missing}\n', err
        status, _, err = ckpt('show', path, 'c')
        assert status == NOT_FOUND and 'no checkpoints of job c' in err, err
        assert err.endswith('; there are those of a, b\n'), err
        status, _, err = ckpt('show', path, 'a', 7)
        assert status == NOT_FOUND and 'no checkpoint of step 7 of job a' in err, err
        of_job = os.path.join(path, 'a')
        assert ckpt('ls', of_job) == (0, f'no checkpoints in {of_job}; it is the folder of a job: '
                                         f'say {os.path.realpath(path)} a\n', '')
        status, _, err = ckpt('show', of_job + '/', 'a')
        assert status == NOT_FOUND and f'say {os.path.realpath(path)} a\n' in err, err
        status, _, err = ckpt('ls', at(path, 1200, 'manifest'))
        assert status == FAILED and 'is no folder' in err, err


def test_words_that_can_not_be_meant_are_refused():
    for words, why in ((('lst',), "there is no 'ckpt lst'. Did you mean 'ls'?"),
                       (('ls',), 'usage: muster ckpt ls DIR [JOB]'),
                       (('ls', 'd', 'j', '1'), 'a word too many'),
                       (('ls', ''), 'the name of the folder is empty'),
                       (('show', 'd'), 'a word is missing'),
                       (('rm', 'd', 'j'), 'usage: muster ckpt rm DIR JOB STEP'),
                       (('show', 'd', 'a/b'), "'a/b' can't be the name of a job"),
                       (('show', 'd', '..'), 'begins with a dot'),
                       (('show', 'd', 'j', 'last'), "'last' is no step"),
                       (('rm', 'd', 'j', '1', '0'), "'0' is no step"),
                       (('verify', 'd', 'j', '5', '--all'), 'exclude each other'),
                       (('ls', 'd', '--all'), '--all is for verify'),
                       (('rm', 'd', 'j', '1', '--json'), '--json is for ls, show and verify'),
                       (('show', 'd', 'j', '--force'), '--force is for rm and export'),
                       (('export', 'd', 'j'), 'export needs --to'),
                       (('export', 'd', 'j', '--to', 'x'), 'ends in .npz, or say --raw'),
                       (('export', 'd', 'j', '--to', 'd/.npz'), 'ends in .npz, or say --raw'),
                       (('export', 'd', 'j', '--to', 'x.npz', '--raw'), '--raw makes a folder'),
                       (('export', 'd', 'j', '--to', 'x', '--raw', '--force'), '--force replaces'),
                       (('export', 'd', 'j', '--to', 'x', '--raw', '--f32'), '--f32 is for .npz')):
        status, out, err = ckpt(*words)
        assert (status, out) == (USAGE, '') and why in err, (words, err)


# ---- muster run ----

def test_flags_of_run_reach_the_worker_and_the_folder_is_made():
    with tempfile.TemporaryDirectory(prefix='muster-ckpt-') as path:
        status, out, err = run('run', '--standalone', '--no-prefix', '--ckpt-dir', 'some/where',
                               '--ckpt-every', '200', '--ckpt-zstd', '--no-ckpt-shared', '--',
                               'sh', '-c', 'env | grep ^MUSTER_CKPT | sort', cwd=path,
                               env=clean_env(MUSTER_CKPT_SHARED='1', MUSTER_CKPT_KEEP='5'))
        assert status == 0, err
        where = os.path.join(os.path.realpath(path), 'some', 'where')
        assert out.splitlines() == [f'MUSTER_CKPT_DIR={where}', 'MUSTER_CKPT_EVERY=200',
                                    'MUSTER_CKPT_KEEP=5', 'MUSTER_CKPT_KEEP_EVERY=0',
                                    'MUSTER_CKPT_ZSTD=1'], out
        assert os.path.isdir(where)


def test_a_folder_that_can_not_be_used_is_told_before_anything_starts():
    with tempfile.TemporaryDirectory(prefix='muster-ckpt-') as path:
        file = os.path.join(path, 'file')
        with open(file, 'wb'):
            pass
        for where, why in ((file, f'{file} is no folder'),
                           (os.path.join(file, 'x'), "can't be made: Not a directory")):
            status, out, err = run('run', '--standalone', '--ckpt-dir', where, 'sh', '-c', 'echo ran')
            assert (status, out) == (FAILED, '') and why in err, err


if __name__ == '__main__':
    tap.run(__name__, 2, sys.argv[3:])
