"""
The lookup over HTTP, for planners that are not written in Python, and a page for people.

`puffin.lookup` makes the answers; this room decides who may ask for what, how much at once, and what errors look like.
Every request passes ``entrance``; ``app`` has the routes, ``service`` and ``browse`` call the lookup, ``process`` runs
everything until it is stopped.
"""
