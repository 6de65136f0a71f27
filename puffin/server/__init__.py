"""
The lookup over HTTP, for planners that are not written in Python, and a page for people.

`puffin.lookup` computes the answers; this package handles access, limits and errors. Every request passes
``entrance``; ``app`` has the routes; ``service`` calls the lookup; ``process`` runs the server.
"""
