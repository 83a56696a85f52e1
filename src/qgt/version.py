"""The version, in a module of its own, so that nothing needs to import the roof to know it."""

__version__ = "0.1.0"
