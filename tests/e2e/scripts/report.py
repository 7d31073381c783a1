"""A training script that does nothing: it writes what it found in its environment into
$E2E_DIR/report.GENERATION.RANK.PID.json and waits for a file that says with which code to exit (see
Job.finish in kit.py). SIGTERM ends it, as it ends any script."""
import json
import os
import sys
import time

FOLDER = os.environ['E2E_DIR']


def write(name, value):
    """$E2E_DIR/NAME.json, which is there only when it is whole."""
    path = os.path.join(FOLDER, name)
    with open(path + '.new', 'w', encoding='utf-8') as file:
        json.dump(value, file)
    os.rename(path + '.new', path + '.json')


def write_report():
    env = dict(os.environ)
    report = {
        'generation': int(env.get('MUSTER_GENERATION', 0)),
        'rank': int(env.get('RANK', -1)),
        'size': int(env.get('WORLD_SIZE', 0)),
        'node': env.get('MUSTER_NODE'),
        'slot': int(env.get('MUSTER_SLOT', -1)),
        'run': int(env.get('MUSTER_RUN', 0)),
        'pid': os.getpid(),
        'group': os.getpgid(0),
        'session': os.getsid(0),
        'time': time.monotonic(),
        'argv': sys.argv[1:],
        'env': env,
    }
    write(f'report.{report["generation"]}.{report["rank"]}.{os.getpid()}', report)
    return report


def names(report):
    """Of the files that may tell this script to exit."""
    node = report['node']
    for who in ('', f'.{node}', f'.{node}.{report["slot"]}'):
        yield 'finish' + who
        yield f'finish{who}@{report["generation"]}'


def code_to_exit_with(report):
    for name in names(report):
        try:
            with open(os.path.join(FOLDER, name), encoding='ascii') as file:
                return int(file.read())
        except FileNotFoundError:
            pass
    return None


def main():
    report = write_report()
    while True:
        code = code_to_exit_with(report)
        if code is not None:
            sys.exit(code)
        time.sleep(0.02)


if __name__ == '__main__':
    main()
