"""Imported by the process that forks victims, once, so that each of them starts in milliseconds."""

from .victims import warm_up

warm_up()
