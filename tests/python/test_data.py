"""muster.data: readers, one's own too, the writer, and training from records."""
import os

import pytest


def test_records_come_back_by_number_slice_and_range(alone, tmp_path):
    alone(f'''
        import muster.data
        with muster.data.Writer({str(tmp_path / "f.recordio")!r}, chunk=100) as file:
            for i in range(1000):
                file.write(b'%d' % i)
        reader = muster.data.open({str(tmp_path / "f.recordio")!r})
        assert len(reader) == 1000 and reader[0] == b'0' and reader[-1] == b'999'
        assert reader[998:2000] == [b'998', b'999'] and list(reader.range(3, 5)) == [b'3', b'4']
        assert [int(r) for r in reader] == list(range(1000))
        assert reader.parts == [({str(tmp_path / "f.recordio")!r}, 0, 1000)], reader.parts
        assert list(reader.read(reader.parts[0].name, 10, 12)) == [b'10', b'11']
        for wrong in (1000, -1001):
            try:
                reader[wrong]
            except IndexError:
                continue
            raise AssertionError(wrong)
    ''')


def test_a_writer_leaves_a_whole_file_or_none(alone, tmp_path):
    alone(f'''
        import os
        import muster.data
        folder = {str(tmp_path)!r}
        try:
            with muster.data.Writer(folder + '/f') as file:
                file.write(b'one')
                raise KeyError('mine')
        except KeyError:
            pass
        assert os.listdir(folder) == []
        file = muster.data.Writer(folder + '/f', compressor='gzip')
        file.write(memoryview(b'one'))
        file.close()
        file.close()
        assert os.listdir(folder) == ['f']
        for make in (lambda: file.write(b'late'), lambda: muster.data.Writer(folder + '/g', compressor='lzma')):
            try:
                make()
            except muster.Invalid:
                continue
            raise AssertionError
        assert muster.data.open('recordio:' + folder + '/f')[0] == b'one'
    ''')


def test_columns_make_dicts_with_their_types(alone, tmp_path):
    (tmp_path / 'f.csv').write_text('name,n,x\n"a, b",1,0.5\nö,,2\n', encoding='utf-8')
    alone(f'''
        import muster.data
        reader = muster.data.open({str(tmp_path / "f.csv")!r})
        assert list(reader) == [{{'name': 'a, b', 'n': 1, 'x': 0.5}}, {{'name': 'ö', 'n': None, 'x': 2.0}}], list(reader)
        assert [(c.name, c.type) for c in reader.columns()] == [('name', 'str'), ('n', 'int'), ('x', 'float')]
        assert muster.data.open({str(tmp_path / "f.csv")!r}, columns=['x', 'n'])[1] == {{'x': 2.0, 'n': None}}
        try:
            muster.data.open({str(tmp_path / "f.csv")!r}, colour='red')
        except muster.Invalid as error:
            assert 'colour' in str(error)
        else:
            raise AssertionError
    ''')


def test_damage_is_an_error_or_skipped(alone, tmp_path):
    alone(f'''
        import muster.data
        path = {str(tmp_path / "f.recordio")!r}
        with muster.data.Writer(path, compressor='none', chunk=4) as file:
            for i in range(4):
                file.write(b'%04d' % i)
        data = bytearray(open(path, 'rb').read())
        data[26] ^= 1
        open(path, 'wb').write(data)
        reader = muster.data.open(path)
        assert reader[1] == b'0001'
        try:
            reader[0]
        except muster.Corrupt as error:
            assert f'{{path}} at 0: ' in str(error), error
        else:
            raise AssertionError
        reader = muster.data.open(path, skip=True)
        assert list(reader) == [b'0001', b'0002', b'0003'] and reader.skipped == 1
    ''')


def test_a_reader_of_ones_own_is_a_reader(alone):
    alone('''
        import muster.data

        class Mine(muster.data.Reader):
            def shards(self):
                return [('none', 0), ('a', 3), ('empty', 0), ('b', 2)]

            def read(self, shard, start, stop):
                return (f'{shard}{i}' for i in range(start, stop))

        mine = Mine()
        assert len(mine) == 5 and list(mine) == ['a0', 'a1', 'a2', 'b0', 'b1']
        assert [mine[i] for i in range(5)] == list(mine) and mine[1:4] == ['a1', 'a2', 'b0']
        mine.read = lambda shard, start, stop: ()
        for look in (lambda: mine[1], lambda: list(mine)):
            try:
                look()
            except IndexError as error:
                assert 'gave 0 records' in str(error), error
            else:
                raise AssertionError
        del mine.read
        assert list(mine.range(2, 9)) == ['a2', 'b0', 'b1'] and mine.columns() == []
    ''')


def test_threads_share_a_reader(alone, tmp_path):
    alone(f'''
        import random, threading
        import muster.data
        path = {str(tmp_path / "f.recordio")!r}
        with muster.data.Writer(path, chunk=1000) as file:
            for i in range(3000):
                file.write(b'%d' % i)
        reader, wrong = muster.data.open(path), []

        def look(seed):
            draw = random.Random(seed)
            for _ in range(2000):
                i = draw.randrange(3000)
                if reader[i] != b'%d' % i:
                    wrong.append(i)

        threads = [threading.Thread(target=look, args=[i]) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
    ''')


@pytest.mark.plain
def test_processes_share_a_reader_as_a_dataset(alone, tmp_path):
    pytest.importorskip('torch')
    alone(f'''
        import pickle
        import sqlite3
        import torch
        import muster.data

        base = sqlite3.connect({str(tmp_path / "t.db")!r})
        with base:
            base.execute('CREATE TABLE t (n INTEGER)')
            base.executemany('INSERT INTO t VALUES (?)', [(i,) for i in range(500)])
        base.close()
        reader = muster.data.open({str(tmp_path / "t.db")!r})
        assert reader[7] == {{'n': 7}}
        loader = torch.utils.data.DataLoader(reader, batch_size=50, num_workers=2)
        assert [n for batch in loader for n in batch['n'].tolist()] == list(range(500))
        assert pickle.loads(pickle.dumps(reader))[499] == {{'n': 499}}
    ''')


TRAIN = '''
import sys
import torch
import muster.data
import muster.torch

records = muster.data.open(sys.argv[1])
model = torch.nn.Linear(4, 1)
with torch.no_grad():
    for p in model.parameters():
        p.zero_()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def collate(batch):
    rows = torch.tensor([[float(x) for x in record.split()] for record in batch])
    return rows[:, :4], rows[:, 4:]


with muster.torch.join(model, optimizer) as run:
    for epoch in run.epochs(2):
        for step in epoch.steps(records, global_batch=32, slices=4, seed=1, collate_fn=collate):
            for x, y in step:
                step.backward(torch.nn.functional.mse_loss(model(x), y))
            optimizer.step()
print(*(f'{v:.9g}' for p in model.parameters() for v in p.flatten().tolist()))
'''


@pytest.mark.plain
def test_the_same_bits_come_from_records_whatever_their_format(alone, tmp_path):
    pytest.importorskip('torch')
    lines = [' '.join(str((i * k) % 7) for k in range(1, 6)) for i in range(128)]
    (tmp_path / 'f.txt').write_text('\n'.join(lines))
    alone(f'''
        import muster.data
        with muster.data.Writer({str(tmp_path / "f.recordio")!r}) as file:
            for record in muster.data.open({str(tmp_path / "f.txt")!r}):
                file.write(record)
    ''')
    script = tmp_path / 'train.py'
    script.write_text(TRAIN)
    said = {alone(f'''
        import runpy, sys
        sys.argv = ['train.py', {str(tmp_path / name)!r}]
        runpy.run_path({str(script)!r}, run_name='__main__')
    ''').stdout for name in ('f.txt', 'f.recordio')}
    assert len(said) == 1 and len(said.pop().split()) == 5
    assert os.path.exists(tmp_path / 'f.recordio')
