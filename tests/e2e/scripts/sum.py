"""Every rank has a one; rank 0 adds them up at MASTER_ADDR:MASTER_PORT and tells the others. Each
writes the sum into $E2E_DIR/sum.GENERATION.RANK, then goes on as report.py."""
import os
import socket
import time

import report

RANK, SIZE = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
MASTER = (os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))


def sum_as_master():
    with socket.create_server(MASTER, backlog=SIZE) as listener:
        peers = [listener.accept()[0] for _ in range(SIZE - 1)]
        total = 1 + sum(int(peer.recv(16)) for peer in peers)
        for peer in peers:
            peer.sendall(str(total).encode())
            peer.close()
    return total


def sum_as_peer():
    while True:
        try:
            with socket.create_connection(MASTER) as master:
                master.sendall(b'1')
                return int(master.recv(16))
        except ConnectionRefusedError:  # Rank 0 is not there yet.
            time.sleep(0.02)


def main():
    total = sum_as_master() if RANK == 0 else sum_as_peer()
    path = os.path.join(report.FOLDER, f'sum.{os.environ["MUSTER_GENERATION"]}.{RANK}')
    with open(path, 'w', encoding='ascii') as file:
        file.write(str(total))
    report.main()


if __name__ == '__main__':
    main()
