"""As report.py, but it does not hear SIGTERM: it ends when it is told to, or killed."""
import signal

import report

if __name__ == '__main__':
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    report.main()
