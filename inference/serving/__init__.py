"""What the resident worker is made of: sockets, clients, turns, loading. Nothing here looks at a request's text."""
