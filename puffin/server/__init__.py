"""
The lookup over HTTP, for planners that are not written in Python, and a page for people.

`puffin.lookup` decides what the answers are; this room decides who may ask for what, how much at once, and how errors
are told. ``entrance`` is what every request passes, ``app`` has the routes, ``service`` and ``browse`` make the
answers, ``process`` runs it all until it is told to stop.
"""
