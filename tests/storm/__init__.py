"""The storm: servers are typed into while their worker is killed and stopped, their files damaged and their disk full.

One asks a hostile partner, another is sent nonsense, and a hostile hub is pulled from.

`make storm` runs it. It is no part of `make test`, since it takes minutes.
"""
