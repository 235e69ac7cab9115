"""The storm: servers that are typed into while their worker is killed and stopped, and one that is sent nonsense.

`make storm` runs it. It is no part of `make test`, since it takes minutes.
"""
