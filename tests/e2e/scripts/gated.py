"""Runs a script that pauses after each step (examples/restart/ddp.py) up to a gate: a process does as many steps
as the file $E2E_DIR/gate says, and waits there until the file is gone.

usage: gated.py SCRIPT [ARGUMENTS…]
"""
import importlib.util
import os
import sys
import time
import types

GATE = os.path.join(os.environ['E2E_DIR'], 'gate')
done = 0


def may_go_on():
    try:
        with open(GATE, encoding='ascii') as file:
            return done < int(file.read())
    except FileNotFoundError:
        return True


def pause(_):
    """In the place of time.sleep()."""
    global done  # pylint: disable=global-statement
    done += 1
    while not may_go_on():
        time.sleep(0.01)


def main():
    del sys.argv[0]
    spec = importlib.util.spec_from_file_location('gated', sys.argv[0])
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.time = types.SimpleNamespace(sleep=pause)
    script.main()


if __name__ == '__main__':
    main()
