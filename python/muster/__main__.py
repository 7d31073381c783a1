"""python3 -m muster: the command line."""
import os
import shutil
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_PLACES = (os.path.join(_HERE, 'bin', 'muster'),  # a wheel
           os.path.join(_HERE, '..', '..', 'muster'))  # a build folder


def find() -> 'str | None':
    """The program: the one that came with this package, else the one that is installed."""
    for path in _PLACES:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return shutil.which('muster')


def main() -> None:
    path = find()
    if path is None:
        sys.exit('muster: the program is not there: neither beside this package nor in PATH; `make install` '
                 'or `pip install ./python` puts it in place')
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == '__main__':
    main()
