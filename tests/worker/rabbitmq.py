"""A RabbitMQ node of the tests' own: on 127.0.0.1, with ports, cookie and data of its own, as whoever runs them."""

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

from kombu import Connection

from tests.worker.conftest import eventually


def server() -> Path | None:
    """Return the server's own start script: Debian's refuses everybody but root."""
    found = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server"))
    elsewhere = shutil.which("rabbitmq-server")
    return found[-1] if found else Path(elsewhere) if elsewhere else None


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports


class Node:
    """One node; what is persistent survives its restart."""

    def __init__(self, folder: Path, script: Path) -> None:
        self.folder, self.script = folder, script
        self.port, self._mapper_port, self._nodes_port = _free_ports(3)
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}//"
        self._mapper: subprocess.Popen[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the node and wait until it lets somebody in."""
        if self._mapper is None:
            mapper = ["epmd", "-address", "127.0.0.1", "-port", str(self._mapper_port)]
            self._mapper = subprocess.Popen(mapper, env=self._environment())
        with (self.folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [self.script], env=self._environment(), stdout=output, stderr=output, start_new_session=True
            )
        eventually(self._answers, "RabbitMQ answers")

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, number)
            self._process.wait(60)
            self._process = None

    def control(self, *command: str) -> None:
        """Run rabbitmqctl."""
        subprocess.run(
            [self.script.with_name("rabbitmqctl"), *command], env=self._environment(), check=True, capture_output=True
        )

    def close(self) -> None:
        self.stop(signal.SIGKILL)
        if self._mapper is not None:
            self._mapper.kill()
            self._mapper.wait()

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "output").read_text()[-2000:]
        try:
            with Connection(self.url, connect_timeout=5) as connection:
                connection.connect()
        except OSError:
            return False
        return True

    def _environment(self) -> dict[str, str]:
        folder = str(self.folder)
        return {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._mapper_port),
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._nodes_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_CONF_ENV_FILE": f"{folder}/none",
            "RABBITMQ_CONFIG_FILE": f"{folder}/none",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
            "RABBITMQ_MNESIA_BASE": f"{folder}/data",
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_PID_FILE": f"{folder}/pid",
        }
