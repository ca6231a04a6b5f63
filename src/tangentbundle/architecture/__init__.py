"""Architectures of networks as JSON: parts of the library by name, parts of a user's own by their
path.

A part is described by its class and the arguments of its constructor, and built again by calling
the class. Tensors among the arguments are listed apart. Nothing is unpickled and nothing is
imported: classes and functions of a user's own are taken from those that the user hands over.

``registry`` says which parts have names, ``description`` writes JSON, ``builder`` reads it, and
``comparison`` makes sure that what was written gives the same network again.
"""
