"""The parts of the resident worker: sockets, clients, turns, loading. Nothing here looks at a request's text."""
