#!/usr/bin/env python3
"""`muster data`: lists, prints, verifies and packs files of records.

usage: data_test.py MUSTER GOLDEN
"""
import base64
import gzip
import json
import os
import pty
import sqlite3
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import tap  # pylint: disable=wrong-import-position

MUSTER, GOLDEN = map(os.path.abspath, sys.argv[1:3])
FAILED, USAGE, NOT_FOUND = 1, 2, 5


def data(*words, cwd=None):
    done = subprocess.run([MUSTER, 'data', *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          timeout=120, cwd=cwd)
    return done.returncode, done.stdout, done.stderr.decode()


def well(*words, cwd=None):
    status, out, err = data(*words, cwd=cwd)
    assert (status, err) == (0, ''), (words, status, out, err)
    return out


def write(folder, name, content):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as file:
        file.write(content)
    return path


def in_folder(test):
    def run():
        with tempfile.TemporaryDirectory(prefix='muster-data-') as folder:
            test(folder)
    run.__name__ = test.__name__
    return run


@in_folder
def test_what_is_packed_comes_back(folder):
    lines = [b'one', b'', b'three \xff', b'four'] * 50
    write(folder, 't.txt', b'\n'.join(lines) + b'\n')
    for compressor in ('none', 'snappy', 'gzip'):
        out = well('pack', 'lines:t.txt', '-o', 'f', '--compressor', compressor, '--chunk', '100', cwd=folder)
        assert out == b'f: 200 records of 700 bytes in all\n', out
        assert well('cat', 'f', cwd=folder) == b'\n'.join(lines) + b'\n'
        assert well('cat', 'f', '--format', 'raw', cwd=folder) == b''.join(lines)
        coded = well('cat', 'f', '--format', 'base64', '--records', '2:4', cwd=folder).splitlines()
        assert [base64.b64decode(line) for line in coded] == lines[2:4]
        shown = [json.loads(line) for line in well('cat', 'f', '--format', 'json', '--records', ':3', cwd=folder).splitlines()]
        assert shown == [{'record': 0, 'data': 'one'}, {'record': 1, 'data': ''},
                         {'record': 2, 'data': {'base64': base64.b64encode(lines[2]).decode()}}], shown
        assert well('cat', 'f', '--records', '199', cwd=folder) == b'four\n'
        assert well('cat', 'f', '--records', '300:400', cwd=folder) == b''
        assert well('verify', 'f', cwd=folder) == b'f is intact: 200 records\n'
        one = json.loads(well('ls', 'f', '--json', cwd=folder))
        assert one['records'] == 200 and one['chunks'] > 5 and one['compressor'] == compressor, one
        assert one['bytes'] == os.path.getsize(os.path.join(folder, 'f'))


@in_folder
def test_all_kinds_of_sources_are_packed(folder):
    images = struct.pack('>BBBBIII', 0, 0, 8, 3, 3, 2, 2) + bytes(range(12))
    write(folder, 'images.gz', gzip.compress(images))
    write(folder, 'labels', struct.pack('>BBBBI', 0, 0, 8, 1, 3) + b'\x07\x08\x09')
    well('pack', '--zip', 'images.gz', 'labels', '-o', 'f', cwd=folder)
    assert well('cat', 'f', '--format', 'raw', cwd=folder) == b'\x00\x01\x02\x03\x07\x04\x05\x06\x07\x08\x08\x09\x0a\x0b\x09'
    status, _, err = data('pack', '--zip', 'images.gz', 'f', 'lines:labels', '-o', 'g', cwd=folder)
    assert status == FAILED and 'has 3' in err and not os.path.exists(os.path.join(folder, 'g')), err
    write(folder, 'd/cat/1.jpg', b'\xff\xd8one')
    write(folder, 'd/dog/2.jpg', b'\xff\xd8two')
    well('pack', 'file:d', '-o', 'f', cwd=folder)
    assert well('cat', 'f', '--format', 'raw', cwd=folder) == b'\xff\xd8one\xff\xd8two'
    well('pack', 'file:d', '-o', 'f', '--format', 'json', cwd=folder)
    assert json.loads(well('cat', 'f', '--records', '1', cwd=folder)) == {'path': 'd/dog/2.jpg', 'data': {'base64': '/9h0d28='}}
    write(folder, 't.csv', b'a,b\n1,"x\ny"\n2.5,\n')
    well('pack', 't.csv', '-o', 'f', '--format', 'json', cwd=folder)
    assert [json.loads(line) for line in well('cat', 'f', cwd=folder).splitlines()] == [{'a': 1, 'b': 'x\ny'}, {'a': 2.5, 'b': ''}]
    well('pack', os.path.join(GOLDEN, 'tfrecord-1.14.6.zlib'), os.path.join(GOLDEN, 'recordio-0.1.7.recordio'), '-o', 'f', cwd=folder)
    assert well('verify', 'f', cwd=folder) == b'f is intact: 9 records\n'


@in_folder
def test_a_table_is_split_into_files_of_so_many_rows(folder):
    base = sqlite3.connect(os.path.join(folder, 't.db'))
    with base:
        base.execute('CREATE TABLE "größe" (id INTEGER, "naïve" TEXT, x)')
        base.executemany('INSERT INTO "größe" VALUES (?, ?, ?)', [(i, f'é{i}', None) for i in range(25)])
    base.close()
    well('pack', 'sqlite:t.db?table=größe&columns=naïve,id', '--format', 'json', '--split', '10', '-o', 'out.recordio', cwd=folder)
    files = [f'out-0000{i}.recordio' for i in range(3)]
    assert sorted(os.listdir(folder)) == [*files, 't.db'], os.listdir(folder)
    assert [json.loads(line)['records'] for line in well('ls', '--json', *files, cwd=folder).splitlines()] == [10, 10, 5]
    assert [json.loads(line) for line in well('cat', 'out-*', cwd=folder).splitlines()] == [
        {'naïve': f'é{i}', 'id': i} for i in range(25)]


def test_a_folder_is_listed_and_verified():
    lines = well('ls', os.path.join(GOLDEN, 'mds-*')).decode().splitlines()
    assert lines[0].split() == ['FILE', 'FORMAT', 'RECORDS', 'COMPRESSOR', 'SIZE'] and lines[-1] == '20 records in 2 files', lines
    assert well('verify', os.path.join(GOLDEN, '*.recordio')).count(b'is intact: 6 records\n') == 5


@in_folder
def test_damage_is_named_by_file_and_offset(folder):
    write(folder, 't.txt', b''.join(b'%04d\n' % i for i in range(10)))
    well('pack', 't.txt', '-o', 'f', '--compressor', 'none', '--chunk', '8', cwd=folder)  # Chunks of 36 bytes.
    content = bytearray(open(os.path.join(folder, 'f'), 'rb').read())
    content[36 + 30] ^= 1
    content[36 * 3] ^= 1
    write(folder, 'f', content)
    status, out, err = data('verify', 't.txt', 'f', cwd=folder)
    lines = out.decode().splitlines()
    assert (status, err) == (FAILED, '') and lines[0] == 't.txt is intact: 10 records', (status, lines, err)
    assert lines[1].startswith('f at 36: ') and lines[2].startswith('f at 108: '), lines
    assert lines[3] == 'f is damaged at 2 places; 6 records can be read', lines
    status, out, _ = data('verify', 'f', '--json', cwd=folder)
    told = json.loads(out)
    assert status == FAILED and not told['intact'] and [d['offset'] for d in told['damages']] == [36, 108], told
    status, _, err = data('cat', 'f', cwd=folder)
    assert status == FAILED and 'f at 108' in err, err
    assert well('cat', '--skip', 'f', cwd=folder).split() == [b'0000', b'0001', b'0004', b'0005', b'0008', b'0009']
    assert '2 damaged places left out' in well('ls', '--skip', 'f', cwd=folder).decode()


@in_folder
def test_what_cannot_be_is_said(folder):
    write(folder, 't.txt', b'x\n')
    write(folder, 'b', b'\x00\x01')
    for words, want, why in ((('lst', 't.txt'), USAGE, "Did you mean 'ls'?"), (('ls', 'none'), NOT_FOUND, "can't read none"),
                             (('ls', 'b'), USAGE, "can't be told"), (('pack', 't.txt'), USAGE, 'needs -o'),
                             (('ls', 't.txt', '-o', 'f'), USAGE, '--out is for pack'), (('cat', '--json', 't.txt'), USAGE, '--json is for'),
                             (('cat', 't.txt', '--records', '4:2'), USAGE, 'M:N'), (('cat', 't.txt', '--records', 'x'), USAGE, 'M:N'),
                             (('cat', 't.txt', '--read', 'skip=maybe'), USAGE, 'yes or no'), (('ls',), USAGE, ''),
                             (('pack', 't.txt', '-o', 'f', '--compressor', 'lzma'), USAGE, 'none, snappy or gzip'),
                             (('pack', 't.txt', '-o', 'no/f'), NOT_FOUND, 'no such folder')):
        status, out, err = data(*words, cwd=folder)
        assert (status, out) == (want, b'') and why in err, (words, status, out, err)


@in_folder
def test_a_bar_is_for_terminals(folder):
    write(folder, 't.txt', b'line\n' * 20000)
    mine, theirs = pty.openpty()
    subprocess.run([MUSTER, 'data', 'pack', 't.txt', '-o', 'f'], stderr=theirs, stdout=subprocess.DEVNULL, cwd=folder, check=True, timeout=60)
    os.close(theirs)
    said = b''
    try:
        while part := os.read(mine, 65536):
            said += part
    except OSError:
        pass
    assert b'100%' in said and said.endswith(b'\r\x1b[K'), said[-100:]


if __name__ == '__main__':
    tap.run(__name__, 2, sys.argv[3:])
