"""Serves an application on a free port, and prints the port."""

import os

from werkzeug.serving import make_server


def serve(app):
    server = make_server("127.0.0.1", int(os.environ["PORT"]), app, threaded=True)
    print("port", server.server_port, flush=True)
    server.serve_forever()
