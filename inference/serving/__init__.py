"""The parts of the resident worker: sockets, clients, scheduling, loading. None of them looks at a request's text."""
