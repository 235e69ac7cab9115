"""The storm: servers are asked while their worker is killed and stopped, their files damaged and their disk full.

One of them asks a hostile partner.

`make storm` runs it. It is no part of `make test`, since it takes minutes.
"""
