"""The command `xpsql metrics`: trainings and streams of a warehouse for Prometheus."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import XpsqlError
from .commands import chosen_of, failing, main, opened, session_options, writing

if TYPE_CHECKING:
    from ..adapters.metrics import Page

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@main.command()
@click.option("--port", type=click.IntRange(0, 65535), help="Answer GET /metrics there until stopped; 0 takes a free port.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at, with --port.")
@click.option("--textfile", type=click.Path(dir_okay=False, path_type=Path), help="Write them once, for node_exporter.")
@session_options
def metrics(port: int | None, host: str, textfile: Path | None, **options: Any) -> None:
    """Show metrics of trainings and streams in Prometheus' text format.

    They are read from the warehouse, so that trainings in other processes and on Spark are seen.
    """
    if port is not None and textfile is not None:
        raise click.UsageError("Give --port or --textfile, not both.")
    chosen = chosen_of(options)
    with failing("", "", chosen.debug), opened(chosen) as session:
        from ..adapters.metrics import Page
        from ..monitoring.alarm import write_whole

        page = Page(session.models)
        if textfile is not None:
            write_whole(textfile, page.text())
        elif port is not None:
            answer(page, host, port)
        else:
            with writing("the metrics to stdout", "Free space where it goes, or send it elsewhere."):
                click.echo(page.text(), nl=False)


def answer(page: Page, host: str, port: int) -> None:
    """Answer requests until the process is stopped.

    Raises:
        XpsqlError: the port is taken, or the address is not this machine's.
    """

    class MetricsHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path.partition("?")[0] == "/metrics"
            body = page.text().encode() if known else b"GET /metrics\n"
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log no requests."""

    try:
        server = ThreadingHTTPServer((host, port), MetricsHandler)
    except OSError as error:
        raise XpsqlError(
            f"Cannot listen at {host}:{port}: {error.strerror or error}. Choose another --port or --host."
        ) from error
    with server:
        click.echo(f"Metrics at http://{host}:{server.server_port}/metrics. Ctrl-C stops.", err=True)
        server.serve_forever()
