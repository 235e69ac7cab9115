"""The parts of the resident worker: sockets, clients, queue, loading. Nothing here knows what is in a request."""
