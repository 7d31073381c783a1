#!/usr/bin/env python3
"""What is exported can be opened by other tools: zipfile, and numpy if it is there.

usage: export_test.py PROGRAM
"""
import os
import struct
import subprocess
import sys
import tempfile
import zipfile

# As in export.c: bytes, name in a .npz file, name as a file.
CHUNK = 4 << 20
PARTS = [
    (20000, 'weights', 'weights'),
    (12, 'model/layer.1/bias', 'model%2Flayer.1%2Fbias'),
    (7, '%2E./%2E./up', '%2E.%2F%2E.%2Fup'),
    (4, '%2Froot', '%2Froot'),
    (4, 'a/%2Fb', 'a%2F%2Fb'),
    (2 * CHUNK + 3, 'odd', 'odd'),
    (0, 'nothing', 'nothing'),
    (8, 'gr%C3%B6%C3%9Fe', 'gr%C3%B6%C3%9Fe'),
    (4, '%2Ehidden', '%2Ehidden'),
    (4, '100%25', '100%25'),
    (4, '%2E.', '%2E.'),
    (4, 'end%2F', 'end%2F'),
]


def state_of(folder):
    with open(os.path.join(folder, 'state'), 'rb') as file:
        state = file.read()
    at = 0
    for size, in_zip, name in PARTS:
        yield in_zip, name, state[at:at + size]
        at += size
    assert at == len(state), (at, len(state))


def array(data):
    """(type, bytes) of a .npy file."""
    assert data[:8] == b'\x93NUMPY\x01\x00', data[:8]
    n, = struct.unpack('<H', data[8:10])
    head = eval(data[10:10 + n])
    assert (10 + n) % 64 == 0 and data[9 + n:10 + n] == b'\n' and not head['fortran_order']
    body = data[10 + n:]
    assert head['shape'] == (len(body) // int(head['descr'][2:]),), head
    return head['descr'], body


def arrays_are_whole(folder):
    for name, floats in (('bytes', False), ('floats', True)):
        with zipfile.ZipFile(os.path.join(folder, name + '.npz')) as file:
            assert file.testzip() is None
            assert file.namelist() == [in_zip + '.npy' for _, in_zip, _ in PARTS]
            for in_zip, _, data in state_of(folder):
                kind, body = array(file.read(in_zip + '.npy'))
                assert body == data, in_zip
                assert kind == ('<f4' if floats and len(data) % 4 == 0 else '|u1'), in_zip


def numpy_loads_them(folder):
    try:
        import numpy
    except ImportError:
        return 'numpy is not there'
    for kind in ('bytes', 'floats'):
        with numpy.load(os.path.join(folder, kind + '.npz')) as file:
            for in_zip, _, data in state_of(folder):
                assert file[in_zip].tobytes() == data, in_zip
                assert file[in_zip].ndim == 1
    return None


def raw_files_are_the_parts(folder):
    assert sorted(os.listdir(os.path.join(folder, 'raw'))) == sorted(n for _, _, n in PARTS)
    for _, name, data in state_of(folder):
        with open(os.path.join(folder, 'raw', name), 'rb') as file:
            assert file.read() == data, name


def nothing_else_is_left(folder):
    assert sorted(os.listdir(folder)) == ['bytes.npz', 'floats.npz', 'raw', 'state']


def main():
    cases = [arrays_are_whole, numpy_loads_them, raw_files_are_the_parts, nothing_else_is_left]
    failed = 0
    print(f'1..{len(cases)}')
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        for i, case in enumerate(cases, 1):
            try:
                skipped = case(folder)
                print(f'ok {i} {case.__name__}' + (f' # SKIP {skipped}' if skipped else ''))
            except AssertionError as error:
                failed += 1
                print(f'not ok {i} {case.__name__}')
                print(f'{case.__name__}: {error!r}', file=sys.stderr)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
