"""A load ends with an error if the server goes away."""

import socket
import threading

import pytest

from benchmarks.load import latencies

REQUEST = b"GET / HTTP/1.1\r\n\r\n"
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd"


@pytest.mark.parametrize("answers", [[b""], [WHOLE, WHOLE[:-1]], [WHOLE, b""]])
def test_a_load_fails_when_the_server_closes_its_connection(answers):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=_answer, args=(listener, answers))
        server.start()
        with pytest.raises(SystemExit, match="closed the connection"):
            latencies(listener.getsockname()[1], REQUEST, 1, 100, 1)
        server.join()


def _answer(listener: socket.socket, answers: list[bytes]) -> None:
    connection, _ = listener.accept()
    with connection:
        for answer in answers:
            connection.recv(100)
            connection.sendall(answer)
