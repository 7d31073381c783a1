"""Small files by other implementations: see README.md beside them.

usage: make_others.py WHEELS OUT 007|017|002|tfrecord|mds|wds

WHEELS has the unpacked wheels in p7 (pyrecordio 0.0.7), r (recordio 0.1.7) and p2 (pyrecordio 0.0.2).
"""
import ctypes
import os
import sys

wheels, out = sys.argv[1:3]
records = [b'', b'one', b'two' * 30, bytes(range(256)), b'\x04\x03\x02\x01 is the magic number', b'last']
which = sys.argv[3]
if which == '007':
    lib = ctypes.CDLL(os.path.join(wheels, 'p7/recordio/librecordio.cpython-36m-x86_64-linux-gnu.so'))
    w = lib.create_recordio_writer(os.path.join(out, 'pyrecordio-0.0.7.recordio').encode())
    for r in records:
        assert lib.recordio_write(w, ctypes.c_char_p(r), len(r)) is not None
    lib.release_object(w)
elif which == '017':
    lib = ctypes.CDLL(os.path.join(wheels, 'r/recordio-0.1.7.data/purelib/recordio/librecordio.so'))
    w = lib.create_recordio_writer(os.path.join(out, 'recordio-0.1.7.recordio').encode(), -1, -1)
    for r in records:
        lib.recordio_write(w, ctypes.c_char_p(r), len(r))
    lib.release_recordio_writer(w)
elif which == '002':
    sys.path.insert(0, os.path.join(wheels, 'p2'))
    import crc32c
    crc32c.crc32 = crc32c.crc32c if not hasattr(crc32c, 'crc32') else crc32c.crc32
    from recordio.recordio.writer import Writer
    from recordio.recordio.header import Compressor
    for name in ('no_compression', 'snappy', 'gzip'):
        with open(os.path.join(out, f'pyrecordio-0.0.2-{name}.recordio'), 'wb') as f:
            w = Writer(f, 100, getattr(Compressor, name))
            for r in records:
                w.write(r)
            w.flush()
elif which == 'tfrecord':
    from tfrecord.writer import TFRecordWriter
    import gzip
    import zlib
    p = os.path.join(out, 'tfrecord-1.14.6.tfrecord')
    w = TFRecordWriter(p)
    for i in range(3):
        w.write({'number': (i, 'int'), 'text': (b'x' * i, 'byte')})
    w.close()
    data = open(p, 'rb').read()
    open(os.path.join(out, 'tfrecord-1.14.6.gzip'), 'wb').write(gzip.compress(data, mtime=0))
    open(os.path.join(out, 'tfrecord-1.14.6.zlib'), 'wb').write(zlib.compress(data))
elif which == 'mds':
    from streaming import MDSWriter
    for name, compression in (('mds-0.13.0', None), ('mds-0.13.0-zstd', 'zstd')):
        with MDSWriter(out=os.path.join(out, name), columns={'number': 'int', 'text': 'str', 'data': 'bytes',
                                                                  'real': 'float64', 'small': 'int8'},
                       compression=compression, hashes=['sha1', 'xxh64'], size_limit=400) as w:
            for i in range(10):
                w.write({'number': i - 5, 'text': 'word ' * i, 'data': bytes([i]) * i, 'real': i / 4, 'small': -i})
elif which == 'wds':
    import webdataset as wds
    with wds.TarWriter(os.path.join(out, 'webdataset-1.0.2.tar'), mtime=0) as w:
        for i in range(3):
            w.write({'__key__': f'sample{i}', 'txt': 'text %d' % i, 'cls': i, 'json': {'n': i}})
